"""The report's page, without a browser."""

import base64
import functools
import hashlib
import html.parser
import json
import re
import subprocess
import sys

import pytest

from contracts.records.evaluation import MetricVerdict
from report import formatting, page
from report.content import Report
from tests.nightly import nightly
from tests.report import sample_parts, samples

KINDS = {
    "pushed": samples.pushed,
    "refused": samples.refused,
    "data refused": samples.data_refused,
    "empty": samples.empty,
    "5 classes": lambda: samples.classes(5),
    "60 classes": lambda: samples.classes(60),
    "labels": samples.labels,
    "regression": samples.regression,
    "hostile": samples.hostile,
}
DRAWN = ("pushed", "60 classes", "hostile")
VOID = ("meta", "link", "input", "br", "img", "rect", "path", "use", "circle", "image")
MEGABYTE = 1_000_000


class Parser(html.parser.HTMLParser):
    """Collects elements, and the texts of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self._open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", data))

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def text(self):
        hidden = ("script", "style", "title", "desc")
        return " ".join(data for tag, data in self.texts if tag not in hidden)


# Of 5 classes, a part is as for 2 and a part as for 60.
PARAMETERS = [nightly(kind) if kind == "5 classes" else kind for kind in KINDS]


@functools.cache
def rendered(kind):
    if kind in DRAWN:
        return page.render(KINDS[kind]())
    return render_without_figures(KINDS[kind]())


def render_without_figures(report):
    with samples.without_figures():
        return page.render(report)


def find_section(text, name):
    return re.search(rf'<section id="{name}">.*?</section>', text, re.DOTALL)[0]


def words_of(html):
    html = re.sub(r"</?bdi.*?>", "", html)
    return " ".join(re.sub(r"<.*?>", " ", html).split())


def rows_of(text):
    """Returns the rows that a page has for its script."""
    return json.loads(re.search(r'id="row-data"[^>]*>(.*?)<', text)[1])["rows"]


def section(kind, name):
    """Returns the words of a section of a page."""
    return words_of(find_section(rendered(kind), name))


@pytest.mark.parametrize("kind", PARAMETERS)
def test_the_page_needs_no_network(kind):
    for tag, attrs in Parser(rendered(kind)).elements:
        assert "style" not in attrs, tag
        assert not [name for name in attrs if name.startswith("on")], tag
        for name in ("src", "href"):
            assert (attrs.get(name) or "#").startswith(("#", "data:")), tag
    assert "url(http" not in rendered(kind)
    assert "@import" not in rendered(kind)


def test_the_policy_allows_only_the_style_and_the_script():
    parser = Parser(rendered("pushed"))
    policy = parser.all("meta")[1]["content"]
    assert policy.startswith("default-src 'none'")
    sources = [text for tag, text in parser.texts if tag in ("style", "script")]
    codes = [text for text in sources if not text.startswith("{")]  # no data
    assert len(codes) == 2
    for code in codes:
        digest = hashlib.sha256(code.encode()).digest()
        assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy


@pytest.mark.parametrize("kind", PARAMETERS)
def test_ids_are_unique_and_links_lead_somewhere(kind):
    parser = Parser(rendered(kind))
    ids = [attrs["id"] for _, attrs in parser.elements if "id" in attrs]
    assert len(set(ids)) == len(ids)
    assert {attrs["href"][1:] for attrs in parser.all("a")} <= set(ids)
    for _, attrs in parser.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attrs.get(name, ids[0]) in ids


@pytest.mark.parametrize("kind", PARAMETERS)
def test_every_table_has_a_caption_and_headers(kind):
    for table in re.findall(r"<table.*?</table>", rendered(kind), re.DOTALL):
        assert "<caption" in table
        assert all("scope=" in header for header in re.findall(r"<th\b[^>]*>", table))


def test_thresholds_of_slices_are_below_their_metrics():
    slices = find_section(rendered("refused"), "slices")
    rows = map(words_of, re.findall(r"<tr.*?</tr>", slices, re.DOTALL))
    north, south, missing = [row for row in rows if "≥" in row]
    assert north.startswith("region north 30 0.960 ")
    assert missing.startswith("region (missing) 64 0.900 ")
    assert [row.count("✓ ≥ 0.920") for row in (north, south, missing)] == [1, 1, 0]
    assert "✕ ≥ 0.920" in missing
    assert "≥" not in Parser(rendered("empty")).text


def test_slices_have_the_linear_model_and_their_largest_difference():
    slices = section("pushed", "slices")
    assert "accuracy Linear model" in slices
    assert "region: 0.900 in (missing) (64 rows), 0.960 in north (30 rows), " in slices
    assert "a difference of 0.060" in slices


def test_rows_that_swapped_words_change_are_shown_with_the_warning():
    words = section("pushed", "swapped-words")
    assert "Warnings the prediction changes in 9 of 40 rows" in words
    assert "gender 40 40 9 22.5 % 10.8 % to 38.5 % 0.154" in words
    assert (
        "1: equivalent (0.900) becomes not_equivalent (0.200 for equivalent) He lost "
        "his keys. He lost her keys." in words
    )
    assert "Words are not swapped: no row has one." in section(
        "regression", "swapped-words"
    )


@pytest.mark.nightly
def test_the_same_report_is_the_same_page():
    stored = Report.model_validate_json(samples.hostile().model_dump_json())
    assert page.render(stored) == rendered("hostile")


def test_the_verdict_comes_first_with_its_reasons():
    text = Parser(rendered("refused")).text
    verdict = text.index("The model is refused; the served version is unchanged.")
    reason = text.index("accuracy is 0.8100, the threshold is 0.8500")
    assert verdict < reason < text.index("Metrics with intervals")
    assert "✕" in text
    assert "✓ Pushed" in words_of(rendered("pushed"))


def test_refused_data_has_only_the_parts_on_the_data():
    parser = Parser(rendered("data refused"))
    assert "The run ended before the training" in parser.text
    assert "eval: 12 of 200 rows are in train, too" in parser.text
    links = [attrs["href"] for attrs in parser.all("a")][1:]
    expected = ["#verdict", "#data", "#lengths", "#time", "#lineage", "#settings"]
    assert links == expected


def test_every_part_of_a_finished_run_is_on_the_page():
    text = Parser(rendered("pushed")).text
    for content in (
        "the difference may be noise (p = 0.34, McNemar, 200 rows)",
        "0.888 to 0.959",  # the interval of the accuracy
        "88.9 %",  # of a cell of the confusion matrix
        "word_overlap",
        "3.1 %",  # of the tokens are unknown
        "Tokens per word",
        "14 of 1,200 rows (1.2 %) repeat another row",
        "CC0-1.0",
        "AdamW, weight decay 0.01",
        "1 min 33 s",  # of the Trainer
        "870fdcb7003ea641",
        "905 MiB",
        "learning_rate: 5.0e-05",
    ):
        assert content in text, content
    assert rendered("pushed").count('role="img"') == 15


def test_model_of_changed_files_has_a_warning_below_the_verdict():
    (header,) = re.findall(r"<header.*?</header>", rendered("pushed"), re.DOTALL)
    assert "Warning: modules/a.py differs from commit 0123456789ab" in header


def test_column_without_a_benefit_is_a_warning_beside_its_tokens():
    columns = find_section(rendered("pushed"), "text-columns")
    row = "0.405 0.005 to 0.090 21.6 40.0 % 22.0 % 0 sentence2 0.920"
    assert row in words_of(columns)
    (warning,) = re.findall(r"<li.*?</li>", columns)
    assert "sentence2: no benefit was found on 200 rows" in warning
    assert "it has 60.0 % of the tokens and 31.0 % of the time" in warning
    assert "Text columns" not in Parser(rendered("60 classes")).text


def test_each_label_has_its_metrics_and_its_threshold():
    metrics = section("labels", "metrics")
    assert "By label" in metrics
    assert "Label Rows Threshold Precision Recall F1 AUC toxic 120 0.371 " in metrics
    assert " 0.970 0.933 to 1.000 rude 31 0.371 " in metrics
    predictions = section("labels", "predictions")
    assert "from a probability of 0.371 on: the highest f1 on eval." in predictions
    assert "Labels with few rows share a threshold: rude, a / b_c." in predictions
    assert "a / b test 0.5 0.800 0.812 0.812 a / b test 0.371 0.748" in predictions
    assert "Confusion" not in predictions
    (row,) = rows_of(rendered("labels"))
    assert row["probabilities"] == [
        [0, 0.8, True, True],
        [1, 0.3, False, False],
        [2, 0.2, True, False],
    ]


def test_rows_without_a_class_are_counted_in_each_split():
    text = section("pushed", "predictions")
    assert "test 0.8 81 (40.5 %) 0.920 test 0.9 131 (65.5 %) 0.920" in text
    assert f"eval 0.95 200 (100.0 %) {formatting._NO_VALUE}" in text
    assert "Abstaining" not in section("regression", "predictions")


def test_worst_rows_that_are_all_rows_are_not_called_the_highest():
    report = samples.regression()
    report.worst_rows = report.worst_rows[:1]
    for rows, text in (
        (1, "All rows of eval, by their loss, the highest first."),
        (2, "The rows of eval with the highest loss: 1 row."),
    ):
        split = sample_parts.split(report.task, "eval", rows)
        report.splits = [split]
        shown = re.sub(r"<[^>]*>", "", render_without_figures(report))
        assert text in shown


def test_threshold_and_temperature_have_what_they_change_in_each_split():
    text = section("pushed", "predictions")
    assert "from a probability of 0.371 on: the lowest cost on eval" in text
    assert "test 0.5 0.812 0.800 0.812 0.812 test 0.371 0.870 0.748 0.870 0.870" in text
    assert "divided by a temperature of 2.13, fitted on eval" in text
    assert "eval without 0.081 0.171 0.640 eval with 0.032 0.158 0.477" in text
    assert "Decision" not in Parser(rendered("60 classes")).text


@pytest.mark.parametrize(
    ("tokens", "time", "is_costly"),
    [(0.1, None, True), (0.02, 0.1, True), (0.09, 0.09, False)],
)
def test_column_without_a_benefit_that_costs_little_is_no_warning(
    tokens, time, is_costly
):
    cost = {"token_share": tokens, "time_share": time}
    column = sample_parts.text_columns()[1].model_copy(update=cost)
    assert bool(column.warning) == is_costly
    test = sample_parts.paired(0.92, 0.925, p_value=0.004)
    assert not column.model_copy(update={"test": test}).warning


def test_older_versions_show_how_the_model_ages():
    text = section("pushed", "ages")
    assert (
        "version 1787652000002 (92 days old, trained on span-2 (1b726d42)) is worse: "
        "accuracy is 0.860 instead of 0.925 on 200 rows of test (p = 0.008); the model "
        "ages, if the settings are the same" in text
    )
    assert "0 d: 0.925; 0.7 d: 0.905; 91.7 d: 0.860" in text
    assert "180 days old another task: classes" in text
    assert "Older versions" not in Parser(rendered("60 classes")).text


def test_older_version_that_is_better_is_a_warning():
    report = samples.pushed()
    report.ages.versions[1].paired = sample_parts.paired(0.99, 0.925, p_value=0.004)
    ages = find_section(render_without_figures(report), "ages")
    (warning,) = re.findall(r"<li.*?</li>", ages)
    assert "is better than the new model: accuracy is 0.990 instead of 0.925" in warning


def test_texts_of_the_data_are_not_markup():
    parser = Parser(rendered("hostile"))
    assert parser.all("img") == []
    assert len(parser.all("script")) == 2
    assert "document.title = 'run by data'</script>" in parser.text
    assert "{{ 7 * 7 }}" in parser.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", rendered("hostile"))
    assert "\u2400" in rendered("hostile")  # the picture of NUL


def test_the_rows_are_data_for_the_script():
    rows = rows_of(rendered("hostile"))
    assert rows[0]["texts"][0] == samples.HOSTILE_TEXTS[0]
    assert [row["loss"] for row in rows[:3]] == ["nan", "inf", 2.5]
    assert rows[0]["probabilities"][0] == [0, None, True, False]


def test_of_many_classes_a_row_has_the_likely_ones_and_its_label():
    report = samples.classes(60)
    row = report.worst_rows[0]
    least = min(row.probabilities, key=row.probabilities.get)
    row.label = least
    shares = rows_of(render_without_figures(report))[0]["probabilities"]
    assert len(shares) == 6
    assert shares[-1][0] == report.task.classes.index(least)


def test_pages_are_small():
    for kind in DRAWN:
        assert len(rendered(kind)) < MEGABYTE
    # As many as MRPC's test split has, each with its tokens.
    large = render_without_figures(samples.pushed(gate_rows=1725, worst_rows=1725))
    assert len(large.encode()) + len(rendered("pushed")) < 2 * MEGABYTE


def test_the_scale_spans_the_values_and_leaves_out_losses():
    metrics = [
        MetricVerdict(metric="accuracy", value=0.84),
        MetricVerdict(metric="loss", value=0.1),
        MetricVerdict(metric="f1", value=float("nan")),
    ]
    scale = page.Scale(metrics, ["accuracy", "f1"], {"accuracy": (0.78, 0.9)})
    assert (scale.low, scale.high) == (0.7, 0.9)
    assert [scale.fits(metric) for metric in metrics] == [True, False, False]
    assert not scale.holds(0.1)
    assert not scale.holds(None)


def test_rendering_imports_no_tensorflow():
    code = "import report.page, sys; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_search_lists_each_trial_and_draws_its_metric_by_setting():
    found = sample_parts.search()
    report = samples.empty().model_copy(update={"search": found})
    text = page.render(report)
    shown = find_section(text, "search")
    assert shown.count("<svg") == 3  # by trial, by each of two settings
    assert shown.partition("<tbody>")[2].count("<tr") == len(found.trials)
    assert "✓ found" in shown
    assert "✕ failed: TrainingError: The loss value is NaN &lt;b&gt;" in shown
    assert f"1.2e{formatting._MINUS}5" in shown
    assert {"href": "#search"} in Parser(text).all("a")
    assert Report.model_validate_json(report.model_dump_json()).search == found
