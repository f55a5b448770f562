"""The model card: its head, and the text of a person that it keeps."""

import dataclasses
import math
import re
import shlex

import pytest
import yaml

from report import model_card, page
from tests.report import sample_parts, samples

KINDS = (
    samples.pushed,
    samples.refused,
    samples.data_refused,
    samples.empty,
    samples.regression,
    samples.hostile,
    samples.labels,
    lambda: samples.classes(77),
)


def head_of(card):
    assert card.startswith("---\n")
    return yaml.safe_load(card.split("\n---\n")[0])


def fill_in(card, name, text):
    """Writes as a person between the marks of a block."""
    start = f"<!-- person: {name} -->\n"
    before, after = card.split(start)
    return f"{before}{start}{text}\n{after[after.index('<!-- end -->') :]}"


@pytest.mark.parametrize("kind", KINDS)
def test_head_is_as_hugging_face_specifies(kind):
    """https://github.com/huggingface/hub-docs/blob/main/modelcard.md."""
    report = kind()
    head = head_of(model_card.render(report))
    assert head["library_name"] == "tf-keras"
    assert head["pipeline_tag"] == "text-classification"
    assert all(isinstance(tag, str) for tag in head["tags"])
    assert {"license", "language"}.isdisjoint(head)
    base_model = "sentence-transformers/all-MiniLM-L6-v2" if report.lineage else None
    assert head.get("base_model") in (None, base_model)
    (model,) = head["model-index"]
    assert model["name"] == report.pipeline
    (result,) = model["results"]
    task = {"type": "text-classification", "name": "Text Classification"}
    assert result["task"] == task
    assert {"name", "type", "split"} <= set(result["dataset"])
    assert result["dataset"]["split"] == report.split
    assert head["metrics"] == [metric["type"] for metric in result["metrics"]]
    for metric in result["metrics"]:
        assert set(metric) == {"type", "value", "name"}
        assert math.isfinite(metric["value"])


def test_card_has_the_encoder_and_does_not_ask_for_it():
    card = model_card.render(samples.pushed())
    assert head_of(card)["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    corrected = card.replace("base_model: sentence-transformers/", "base_model: ada/")
    again = model_card.render(samples.pushed(), corrected)
    assert head_of(again)["base_model"] == "ada/all-MiniLM-L6-v2"
    assert "base_model" not in model_card.render(samples.empty())


def test_every_part_of_a_finished_run_is_on_the_card():
    card = model_card.render(samples.pushed())
    for content in (
        "# To be filled in by a person: language, license\n",
        "The BERT encoder sentence-transformers__all-MiniLM-L6-v2, fine",
        "0.8, 81 of 200 rows of test have no class, and the accuracy of",
    ):
        assert content in card, content
    assert card.count("With a least probability of") == 1


def test_card_has_the_search_with_its_space_and_the_split_that_it_selected_on():
    report = samples.pushed()
    report.search = sample_parts.search()
    card = model_card.render(report)
    assert (
        "Search: 5 trials, 1 pruned, 1 failed; trial 4 has the best accuracy on eval, "
        "0.925, with learning_rate 9.1e\u22125 of \\[1e\u22125, 0.0002, log\\], "
        "epochs 3 of \\[2, 3, 4\\]."
    ) in card


def test_card_of_a_model_that_is_never_sure_has_no_accuracy():
    report = samples.pushed()
    for split in report.abstention:
        split.points = [
            dataclasses.replace(point, abstained=split.rows, accuracy=math.nan)
            for point in split.points
        ]
    card = model_card.render(report)
    assert "0.8, 200 of 200 rows of test have no class.\n" in card
    assert "NaN" not in card


def test_card_of_labels_has_their_thresholds():
    card = model_card.render(samples.labels())
    assert "predict which of 3 labels texts have, any number of them" in card
    assert "| label | precision | recall | F1 |" in card
    assert "from a probability of 0.371 on: the highest f1 on eval." in card
    assert "\nLabels with few rows share a threshold: rude, a / b_c.\n" in card


@pytest.mark.parametrize(
    ("threshold", "rule"),
    [
        (1 + 2**-23, "never predicted"),
        (0.0, "always predicted"),
        (0.99999, "predicted from a probability of 0.99999 on"),
    ],
)
def test_class_that_is_always_or_never_predicted_is_said_to_be(threshold, rule):
    report = samples.pushed()
    decision = report.training.decision.model_copy(update={"threshold": threshold})
    report.training.decision = decision
    name = report.task.classes[1]
    sentence = f"{name} is {rule}: the lowest cost on eval."
    assert sentence in model_card.render(report)
    with samples.without_figures():
        assert f" is {rule}: the lowest cost on " in page.render(report)


@pytest.mark.parametrize("kind", [samples.pushed, samples.regression, samples.labels])
@pytest.mark.parametrize(("split", "chose"), [("eval", True), ("test", False)])
def test_page_and_card_say_that_the_evaluated_rows_also_chose_the_model(
    kind, split, chose
):
    report = kind().model_copy(update={"split": split})
    sentence = "The rows of eval also chose the model"
    assert (sentence in model_card.render(report)) == chose
    with samples.without_figures():
        assert (sentence in page.render(report)) == chose


def test_metrics_have_the_names_of_the_hub():
    head = head_of(model_card.render(samples.pushed()))
    (result,) = head["model-index"][0]["results"]
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert values["accuracy"] == 0.925
    assert values["matthews_correlation"] == 0.8597
    assert values["roc_auc"] == 0.9407


def test_glue_has_the_name_of_the_hub():
    report = samples.pushed()
    report.data.card["source"] = "tfds:glue/mrpc"
    head = head_of(model_card.render(report))
    assert head["datasets"] == ["nyu-mll/glue"]
    assert head["model-index"][0]["results"][0]["dataset"] == {
        "name": "GLUE MRPC",
        "type": "nyu-mll/glue",
        "config": "mrpc",
        "split": "test",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_is_whole(kind):
    """No cell breaks its table, and no fence or mark is left open."""
    card = model_card.render(kind())
    for table in re.findall(r"(?:^\|.*\n)+", card, re.MULTILINE):
        columns = {len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(columns) == 1, table
    assert len(re.findall(r"^```", card, re.MULTILINE)) % 2 == 0
    assert card.count("<!-- person: ") == card.count("<!-- end -->") == 7
    assert "<script" not in card.replace("\\<script", "").split("\n---\n")[1]
    assert not re.search(r"\bundefined\b|\bNone\b", card)


def test_request_has_the_columns_of_the_task():
    card = model_card.render(samples.hostile())
    command = card.split("```\n")[1].replace("\\\n", "")
    words = shlex.split(command.splitlines()[0])
    assert words[:2] == ["curl", "-d"]
    assert yaml.safe_load(words[2]) == {
        "instances": [{"<i>": "Text 1.", 'quo"te': "Text 2."}]
    }


def test_what_a_person_wrote_is_kept_from_version_to_version():
    card = model_card.render(samples.pushed())
    text = "For **editors**.\n\n## With a heading\n\n- and a list | with a bar"
    card = fill_in(card, "intended_use", text)
    card = card.replace("---\n", "---\nlicense: mit\nco2_eq_emissions: 12\n", 1)
    card = card.replace("- saved-model\n", "- saved-model\n- news\n")
    first = model_card.render(samples.refused(), card)
    card = model_card.render(samples.pushed(), first)
    assert f"<!-- person: intended_use -->\n{text}\n<!-- end -->" in card
    assert card.count("With a heading") == 1
    head = head_of(card)
    assert head["license"] == "mit"
    assert head["co2_eq_emissions"] == 12
    assert head["tags"][-1] == "news"
    assert "# To be filled in by a person: language\n" in card
    assert head["model-index"][0]["results"][0]["metrics"][0]["value"] == 0.925
    assert head_of(first)["model-index"][0]["results"][0]["metrics"][0]["value"] == 0.81


def test_data_sets_that_a_person_names_are_kept_and_those_of_other_data_are_not():
    glue, local = samples.pushed(), samples.pushed()
    glue.data.card["source"] = "tfds:glue/mrpc"
    local.data.card["source"] = "/data/news"
    of_glue = model_card.render(glue)
    assert head_of(of_glue)["datasets"] == ["nyu-mll/glue"]
    card = model_card.render(local, of_glue)
    assert "datasets" not in head_of(card)
    card = card.replace("---\n", "---\ndatasets: [ada/news]\n", 1)
    assert head_of(model_card.render(local, card))["datasets"] == ["ada/news"]


def test_override_of_a_refusal_is_named():
    override = {"by": "ada", "reason": "the threshold is a *typo*"}
    card = model_card.render(samples.refused(), None, override)
    assert "but a person pushed it" in card
    assert "- by: ada\n- reason: the threshold is a \\*typo\\*\n" in card
    assert "a person pushed it" not in model_card.render(samples.refused(), card)


def test_entities_are_escaped_and_names_end_no_fence():
    report = samples.pushed()
    report.verdict.not_compared = "&lt;b&gt;"
    report.settings["task"] = {"classes": ["a\n\n```\n\n# Heading", "b"]}
    del report.settings["name"]
    card = model_card.render(report)
    assert "\n\\&lt;b\\&gt;; only absolute thresholds apply.\n" in card
    settings = card.split("```yaml\n")[1].split("\n```\n")[0]
    assert yaml.safe_load(settings) == report.settings


def test_paths_of_the_machine_are_not_published():
    report = samples.pushed()
    report.verdict.not_compared = "not compared with /home/ada/serving/news/17: f1 24/7"
    report.training.facts = {"started from": "the champion /home/ada/serving/news/17"}
    card = model_card.render(report)
    assert "Not compared with 17: f1 24/7; only absolute thresholds apply." in card
    assert "- started from: the champion 17\n" in card
    assert "/home" not in card


def test_block_that_the_template_does_not_have_is_kept():
    card = model_card.render(samples.pushed())
    assert model_card.render(samples.pushed(), card) == card  # of the same run
    card += "\n<!-- person: audit -->\nDone in May.\n<!-- end -->\n"
    again = model_card.render(samples.pushed(), card)
    assert "## Further notes\n\n<!-- person: audit -->\nDone in May.\n" in again


def test_text_below_the_question_and_in_a_block_without_an_end_is_kept():
    card = model_card.render(samples.pushed())
    question = "*To be filled in by a person: whom to contact with questions.*"
    before, after = card.split(question)
    for rest in (after, after.replace("<!-- end -->", "", 1)):
        changed = f"{before}{question}\nAda, ext. 12{rest}"
        assert "\nAda, ext. 12\n" in model_card.render(samples.pushed(), changed)


@pytest.mark.parametrize(
    "save",
    [
        lambda card: card.replace("\n", "\r\n"),
        lambda card: card.replace("\n", "\r"),
        lambda card: f"\ufeff{card}",
        lambda card: f"\ufeff{card}".replace("\n", "\r\n"),
        lambda card: f"\n \n{card}",
        lambda card: card.replace("---\n", "--- \n"),
    ],
    ids=["CRLF", "CR", "byte order mark", "mark and CRLF", "blank lines", "space"],
)
def test_card_that_an_editor_saved_loses_nothing(save):
    card = fill_in(model_card.render(samples.pushed()), "contact", "Ada")
    written = "license: mit\nlanguage: de\nbase_model: bert-base\n"
    card = re.sub("base_model: .*\n", "", card)
    card = card.replace("---\n", f"---\n{written}", 1)
    again = model_card.render(samples.pushed(), save(card))
    assert "<!-- person: contact -->\nAda\n<!-- end -->" in again
    head = head_of(again)
    kept = {key: head.get(key) for key in ("license", "language", "base_model")}
    assert kept == yaml.safe_load(written)


@pytest.mark.parametrize("damage", ["tags: [", "- a list", "tags: news"])
def test_head_that_a_person_broke_is_written_again(damage):
    card = fill_in(model_card.render(samples.pushed()), "contact", "Ada")
    card = f"---\n{damage}\n---\n" + card.split("\n---\n", 1)[1]
    again = model_card.render(samples.pushed(), card)
    assert head_of(again) == head_of(model_card.render(samples.pushed()))
    assert "\nAda\n" in again


def test_checks_that_no_code_knows_have_a_line_and_a_short_table_without_rows():
    report = samples.refused()
    card = model_card.render(report)
    lines = (
        "**Regions, refused:** Accuracy differs most between north and (missing).\n\n"
        "| region | rows | accuracy | champion | p |\n|---|---|---|---|---|\n"
        "| north | 41 | 0.951 (0.891 to 0.991) | 0.941 (0.881 to 0.981) | 0.34 |\n",
        "**Exclamations, warning:** The prediction changes in 9 of 40 rows.\n",
        "**Speed, passed:** A request takes 0.98 of the time.\n",
        "**Required rows, not applicable:** \\`file\\` is not set.\n",
    )
    places = [card.index(line) for line in lines]
    assert places == sorted(places)
    assert sample_parts.TEXTS[0] not in card
    report.checks[0].table.rows *= 7
    assert "| region | rows |" not in model_card.render(report)
    assert "## Checks" not in model_card.render(samples.empty())
