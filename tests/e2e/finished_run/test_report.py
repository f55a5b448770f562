"""The report of a run: its numbers, its page and the model card."""

import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner

from components.model_checks import registry
from contracts.errors import UsageError
from contracts.redaction import REDACTED
from pipeline.cli import main
from pipeline.operations.runs import RunList
from report import page
from report.content import Report
from tests.e2e.check_results import find, read_table

pytestmark = pytest.mark.e2e


def last_record(finished):
    return max(finished.paths.runs.iterdir())


def read(finished):
    return Report.read(str(last_record(finished)))


def test_report_of_a_pushed_model_has_all_parts(finished):
    report = read(finished)
    assert report.outcome == "pushed"
    assert report.pushed == str(finished.run.pushed)
    accuracy = next(m for m in report.metrics if m.metric == "accuracy")
    low, high = report.intervals["accuracy"]
    assert low <= accuracy.value <= high
    assert accuracy.threshold == 0.0
    assert 0.3 < report.majority["accuracy"] < 0.7
    assert {"epochs", "batch size", "learning rate"} <= set(report.training.facts)
    (seed,) = report.training.seeds
    assert seed.evaluations["accuracy"].x[-1] == seed.steps
    assert seed.losses.y
    assert len(report.batch.input_mask) == 16
    assert sum(map(sum, report.classification.confusion)) == 48
    (abstention,) = report.abstention
    assert (abstention.split, abstention.rows) == ("eval", 48)
    assert abstention.curve.x[0] == 0
    assert abstention.curve.y[0] == pytest.approx(accuracy.value)
    assert [point.min_probability for point in abstention.points] == [
        *(0.6, 0.7, 0.8, 0.9, 0.95)
    ]
    assert {part.feature for part in report.slices} == {"pair_length", "word_overlap"}
    assert {result.name for result in report.checks} == set(registry.find_checks())
    assert all(result.title and result.sentence for result in report.checks)
    for row in find(report.checks, "swapped_words").rows:
        assert any("cat" in text or "dog" in text for text in row.texts.values())
    worst = report.worst_rows[0]
    assert worst.texts[0].startswith("The ")
    assert worst.tokens[0] == "[CLS]"
    assert worst.label != worst.prediction
    assert [split.name for split in report.splits] == ["train", "eval"]
    assert sum(report.data.profile["train"].lengths.counts) == 48
    assert report.serving_check.blessed
    kinds = [step.kind for step in report.lineage if step.kind != "commit"]
    assert kinds == ["data", "code", "settings", "encoder", "libraries", "model"]
    assert report.components["Trainer"] > report.components["SchemaGen"]
    assert "Report" not in report.components


def test_page_of_a_run_is_kept_next_to_its_settings(finished):
    text = (last_record(finished) / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert finished.run.pushed.name in text
    assert len(text) < 1_000_000


def test_graph_of_the_models_layers_is_next_to_the_page(finished):
    page = Path(finished.output("Report", "report").uri)
    assert "transformer/layer_1" in page.with_name("model.svg").read_text()


def test_texts_of_a_redacted_run_are_in_no_file_that_it_shows(run, finished):
    """Also not in the rows that are pushed as examples with the next version."""
    folder = finished.recipe.parent
    (folder / "hide_of_a_run.py").write_text("def hide(row):\n    return None\n")
    raw = read(finished)
    texts = {text for row in raw.worst_rows for text in row.texts}
    _, executed = run(redact="hide_of_a_run:hide")
    assert "Trainer" not in executed
    report = read(finished)
    assert [row.id for row in report.worst_rows] == [row.id for row in raw.worst_rows]
    assert {text for row in report.worst_rows for text in row.texts} == {REDACTED}
    assert find(report.checks, "swapped_words").rows
    artifact = Path(finished.output("Report", "report").uri)
    directories = (last_record(finished), artifact.parent)
    shown = [path for folder in directories for path in folder.rglob("*.*")]
    blessing = Path(finished.output("ModelChecks", "blessing").uri)
    shown += [blessing / "examples.json", finished.run.pushed / "README.md"]
    names = {path.name for path in shown}
    assert {"report.html", "report.json", "checks.json", "run.log"} <= names
    contents = {path: path.read_text() for path in shown}
    assert [path for path in shown if any(t in contents[path] for t in texts)] == []


def test_card_is_next_to_the_pushed_model(finished):
    card = (finished.run.pushed / "README.md").read_text()
    assert card.startswith("---\n")
    assert "library_name: tf-keras" in card or "tags:" in card
    # The recipe is in a temporary directory.
    assert f"the recipe {finished.recipe.name}" in card.split("## Lineage")[1]


def test_commits_are_in_the_record_the_version_and_the_report(finished):
    report = read(finished)
    record = json.loads((last_record(finished) / "run.json").read_text())
    manifest = json.loads(Path(report.pushed, "manifest.json").read_text())
    assert record["commits"]["recipe_file"] == finished.recipe.name
    assert manifest["commits"]["recipe_file"] == finished.recipe.name
    assert report.commits.model_dump() == manifest["commits"]


def test_run_with_two_older_versions_shows_how_the_model_ages(
    run, finished, second, console
):
    """The first model was pushed today, and a copy of it 92 days ago."""
    newer = finished.run.pushed
    older = newer.with_name(str(int(newer.name) - 92 * 86_400_000))
    shutil.copytree(newer, older)
    latest, executed = run(**second.settings)
    assert executed == {"Report"}
    ages = find(read(finished).checks, "older_versions")
    assert ages == find(latest.checks, "older_versions")
    assert ages.figures["rows"] == 48
    new, *versions = read_table(ages)
    value = second.run.metrics["accuracy"]
    assert new["accuracy"].value == pytest.approx(value, abs=1e-6)
    before = finished.run.metrics["accuracy"]
    assert [version["version"] for version in versions] == [newer.name, older.name]
    for version, days in zip(versions, (0, 92), strict=True):
        age = datetime.now(timezone.utc) - datetime.fromisoformat(version["pushed"])
        assert round(age / timedelta(days=1)) == days
        assert version["accuracy"].value == pytest.approx(before, abs=0.2)
        difference = new["accuracy"].value - version["accuracy"].value
        assert version["difference"].value == pytest.approx(difference)
        assert version["data"].startswith("data (")
    page = (last_record(finished) / "report.html").read_text()
    card = (second.run.pushed / "README.md").read_text()
    options = ["--config", str(finished.recipe)]
    shown = CliRunner().invoke(main.main, ["show", "latest", *options]).output
    for version in versions:
        assert f'"name">{version["version"]}</bdi></th>' in page
        assert f"| {version['version']} | " in card
    for text in (page, card, shown):
        assert "92 days old" in text


@pytest.mark.nightly
def test_refused_model_is_reported_with_its_reasons_and_has_no_card(run, finished):
    refused, _ = run(evaluator__thresholds={"accuracy": 1.0})
    assert refused.pushed is None
    written = read(finished)
    assert written.outcome == "refused"
    assert any("accuracy" in reason for reason in written.reasons)
    assert written.worst_rows


def test_refused_data_are_reported(run, finished):
    with open(finished.recipe.parent / "data" / "train.tsv", "a") as file:
        file.write("900\t1\t \tA cat!\n")
    with pytest.raises(UsageError, match=r"report: .*report\.html"):
        run()
    written = read(finished)
    assert written.outcome == "data refused"
    assert any("sentence1" in reason for reason in written.reasons)


def test_data_that_the_gate_refuses_are_reported_with_their_statistics(run, finished):
    with pytest.raises(UsageError, match="the data are refused"):
        run(data_gate__max_word_f1=0.1)  # a word in many rows of a class
    written = read(finished)
    assert written.outcome == "data refused"
    assert written.data.problems
    assert [split.rows for split in written.splits] == [48, 48]
    assert written.training is None


def edit_page(monkeypatch):
    """Makes the code of the page read as if it had been edited."""
    read_text = Path.read_text

    def read(path, *args, **kwargs):
        text = read_text(path, *args, **kwargs)
        return f"{text}edited = 1" if path == Path(page.__file__) else text

    monkeypatch.setattr(Path, "read_text", read)


def test_report_that_fails_hides_no_push_and_is_written_by_the_next_run(
    run, finished, console, monkeypatch
):
    def fail(*_, **__):
        raise TypeError("no optimizer <here>\nand a second line")

    edit_page(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr("components.report.run_report.describe_run", fail)
        ended, executed = run()
    missing = "the report and the model card (TypeError: no optimizer <here>)"
    assert executed == {"Report"}
    assert ended.pushed == finished.run.pushed
    assert ended.missing == missing
    latest = RunList(finished.paths).find("latest")
    text = (latest.directory / "report.html").read_text()
    assert "Missing: the report and the model card" in text
    assert "no optimizer &lt;here&gt;" in text
    assert main.show(latest, console) == 0
    last = console.file.getvalue().splitlines()[-1]
    assert last == f"pushed {ended.pushed}; missing: {missing}"

    ended, executed = run()
    assert executed == {"Report"}
    assert ended.missing == ""
    assert read(finished).outcome == "pushed"


def test_card_or_picture_that_fails_leaves_the_report(run, finished, monkeypatch):
    def fail(*_):
        raise OSError("no space")

    edit_page(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr("report.model_card.render", fail)
        ended, _ = run()
    assert ended.missing == "the model card (OSError: no space)"
    assert read(finished).outcome == "pushed"
    text = (last_record(finished) / "report.html").read_text()
    assert "The report failed" not in text

    monkeypatch.setattr("components.report.component.draw_model", fail)
    ended, _ = run()
    assert ended.missing == "model.svg (OSError: no space)"
    assert read(finished).outcome == "pushed"
    assert (ended.pushed / "README.md").is_file()
