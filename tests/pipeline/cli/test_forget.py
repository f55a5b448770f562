"""The command that forgets a person: what it prints, and what it refuses."""

import csv
import json

import pytest

from contracts.storage import file_lock
from ingest.examples.data_card import DataCard
from tests import records

TEXT = "Quill wrote this long review of a hotel."


@pytest.fixture
def source(past, tmp_path):
    """A file with rows of two people, and the Examples of a run of them."""
    path = tmp_path / "reviews.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("user", "review"), ("quill", TEXT), ("other", "Another.")])
    directory = past.paths.run(past.run().id)
    (directory / "config.yaml").write_text(
        "name: tiny\ntask: {text_columns: [review], classes: [bad, good]}\n"
        f"data: {{source: {path}}}\nencoder: {{source: bert}}\n"
        "evaluator: {thresholds: {f1: 0.5}}\n"
    )
    DataCard(source=str(path)).write(directory)
    rows = [records.example(review=[text]) for text in (TEXT.encode(), b"Another.")]
    examples = past.paths.examples("of reviews")
    records.write(examples / "train" / "data-00000-of-00001.tfrecord.gz", rows)
    (artifact,) = past.execute("ImportExampleGen", ["examples: Examples"])
    past.execute("Trainer", ["model: Model"], [artifact])
    records.write(past.paths.root / artifact.uri / "data_tfrecord-0.gz", rows)
    return path


def test_listing_names_the_models_the_command_and_the_data(past, invoke_past, source):
    printed = " ".join(invoke_past("forget", "--column", "user=quill").split())
    (record,) = past.paths.runs.iterdir()
    for text in (
        "would be deleted: 2 directories that a run creates again",
        "trained or evaluated on the rows: "
        f"{past.paths.artifacts / 'Trainer' / 'model'}",
        f"run --config {record / 'config.yaml'} --output {past.paths.root}",
        f"{source} has 1 row, which the next run reads",
        "--yes does it",
    ):
        assert text in printed
    assert past.paths.examples("of reviews").exists()


def test_rows_are_removed_and_described_for_a_script(past, invoke_past, source):
    found = json.loads(
        invoke_past("forget", "--column", "user=quill", "--yes", "--json")
    )
    assert not past.paths.examples("of reviews").exists()
    assert [entry["kind"] for entry in found["deleted"]] == ["artifact", "example"]
    assert found["sources"] == {str(source): 1}


@pytest.mark.parametrize("pair", ["user=nobody", "users=quill"])
def test_value_that_no_row_has_is_one_line_with_the_columns(invoke_past, source, pair):
    printed = invoke_past("forget", "--column", pair, "--yes", exit_code=2)
    (line,) = printed.splitlines()
    assert "allowed: review, user; " in line
    assert line.endswith("[E-column-missing]")


def test_column_without_a_value_is_refused(invoke_past, source):
    printed = invoke_past("forget", "--column", "user", exit_code=2)
    assert "NAME=VALUE" in printed


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_status_is_a_failure_if_a_file_stays_that_has_a_text(
    past, invoke_past, source, options
):
    notes = past.paths.training / "notes.txt"
    notes.parent.mkdir()
    notes.write_text(TEXT)
    invoke_past("forget", "--column", "user=quill", *options)
    printed = invoke_past(
        "forget", "--column", "user=quill", "--yes", *options, exit_code=1
    )
    assert f"{notes} has a text of the rows, and stays" in " ".join(printed.split())


def test_output_that_a_run_uses_is_listed_only(past, invoke_past, source):
    with file_lock.hold(past.paths.lock, "process 1, run x\n"):
        invoke_past("forget", "--column", "user=quill")
        printed = invoke_past("forget", "--column", "user=quill", "--yes", exit_code=2)
    assert "is in use by process 1" in printed
    assert past.paths.examples("of reviews").exists()
