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


def verdict_of(kind):
    return words_of(re.search("<header.*?</header>", rendered(kind), re.DOTALL)[0])


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


def test_slices_have_their_difference_from_the_champion():
    assert "region north 30 0.960 +0.020 0.950 ±0.000" in section("pushed", "slices")


def test_checks_that_no_code_knows_are_shown_refusals_first():
    checks = section("refused", "checks")
    parts = (
        "1 refused, 1 warning, 1 passed, 1 not applicable. ",
        "✕ refused Regions Accuracy differs most between north and (missing). ",
        "What to do: add rows of the region (missing). ",
        "rows 163 largest difference 0.091 (0.012 to 0.170) Regions region rows ",
        "accuracy 0.8 to 1 champion 0.7 to 1 p ",
        "north 41 0.951 0.891 to 0.991 0.941 0.881 to 0.981 0.34 south 58 ",
        "checks.by_region , 2.1 s, E-region ⚠ warning Exclamations The prediction ",
        "share changed 0.225 (0.108 to 0.385) 6 rows before The fire at ",
        "✓ passed Speed A request takes 0.98 of the time. model (ms) 12.51 champion",
        "Not applicable Required rows: `file` is not set",
    )
    places = [checks.index(part) for part in parts]
    assert places == sorted(places)
    assert "Checks : 1 refused, 1 warning, 1 passed" in verdict_of("refused")
    assert "Checks" not in Parser(rendered("60 classes")).text


def test_estimates_of_a_column_are_drawn_on_its_scale():
    checks = find_section(rendered("pushed"), "checks")
    drawn = re.findall(r'<svg class="interval".*?</svg>', checks, re.DOTALL)
    assert len(drawn) == 6  # two columns of three rows
    # From 0.8 to 1, 124 pixels.
    value, ends = 8 + 124 * 0.151 / 0.2, (8 + 124 * 0.091 / 0.2, 8 + 124 * 0.191 / 0.2)
    assert f'cx="{value:.1f}"' in drawn[0]
    assert 'class="range" d="M{:.1f} 11H{:.1f}"'.format(*ends) in drawn[0]


def test_rows_of_a_check_are_closed_if_there_are_many_and_limited():
    report = samples.empty()
    (_, changed, *_) = sample_parts.checks()
    for rows, summary in (
        (3, "<details open><summary>3 rows</summary>"),
        (4, "<details><summary>4 rows</summary>"),
        (101, "<details><summary>101 rows, the first 100 of them</summary>"),
    ):
        report.checks = [changed.model_copy(update={"rows": changed.rows[:1] * rows})]
        checks = find_section(page.render(report), "checks")
        assert summary in checks
        assert checks.count('<li class="body">') == min(rows, 100)


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
    assert rendered("pushed").count('role="img"') == 14


def test_model_of_changed_files_has_a_warning_below_the_verdict():
    header = verdict_of("pushed")
    assert "Warning: modules/a.py differs from commit 0123456789ab" in header


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
    scale = page.MetricScale(metrics, ["accuracy", "f1"], {"accuracy": (0.78, 0.9)})
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
