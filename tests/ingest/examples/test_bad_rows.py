"""Rows that a run cannot take are refused, or skipped and written to a file."""

import json
import re

import pytest

from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest import examples as examples_lib
from pipeline.config.paths import OutputPaths
from tests import records
from tests.refusals import refused

TASK = TaskConfig(text_columns=["text"], classes=["no", "yes"])
SKIP = DataConfig(on_bad_rows="skip")
ROWS = b"""text,label
good,yes
"  ",no
bad byte \xff,no
good,maybe
good,no,surplus
\xe2\x80\x8b,yes
also good,no
"""
REASONS = {
    3: "text is '  ', which has no visible character",
    4: "column 10: the byte 0xff is not utf-8",
    5: "label is 'maybe'; allowed are no, yes",
    6: "3 fields, the header has 2",
    7: "which has no visible character",
}


@pytest.fixture
def source(write):
    return str(write("csv", train=ROWS, eval="text,label\na,no\nb,yes\n"))


def test_all_bad_rows_are_counted_and_the_first_named(tmp_path, source, prepare):
    with open(f"{source}/train.csv", "a") as file:
        file.write("x,?\n" * 3)
    with refused("E-rows-refused", advice=re.compile("`data.on_bad_rows=skip`")) as bad:
        prepare(source, TASK)
    lines = bad.value.got.splitlines()
    assert lines[0] == "8 rows cannot be used:"
    for line, (row, reason) in zip(lines[1:6], REASONS.items(), strict=True):
        assert f"train.csv:{row}: " in line
        assert reason in line
    assert lines[6:] == ["  and 3 more"]
    assert str(bad.value).splitlines()[7].startswith("correct the data")
    assert not (tmp_path / "records").exists()


def test_skipped_rows_are_written_with_their_reasons(tmp_path, source, prepare):
    splits, lines = prepare(source, TASK, on_bad_rows="skip")
    texts = [row["text"] for row in splits["train"]]
    assert texts == [[b"good"], [b"also good"]]
    assert len(splits["eval"]) == 2
    path = tmp_path / "records" / "skipped.jsonl"
    assert f"5 bad rows skipped, with reasons in {path}" in lines
    skipped = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["row"] for row in skipped] == [*REASONS]
    for row in skipped:
        assert row["split"] == "train"
        assert row["file"] == f"{source}/train.csv"
        assert REASONS[row["row"]] in row["reason"]
    assert skipped[2]["values"] == {"text": "good", "label": "maybe"}


def test_split_without_a_good_row_is_refused(tmp_path, source, prepare):
    (tmp_path / "data" / "eval.csv").write_text("text,label\na,?\n")
    got = "no rows are left in the split eval"
    with refused("E-split-missing", setting=source, got=got):
        prepare(source, TASK, on_bad_rows="skip")
    assert not (tmp_path / "records").exists()


def test_choice_is_not_taken_from_an_earlier_run(tmp_path, source):
    paths = OutputPaths(tmp_path / "output", "name")
    examples_lib.resolve_examples(source, TASK, paths.examples, settings=SKIP)
    with refused("E-rows-refused", got=re.compile("^5 rows cannot be used")):
        examples_lib.resolve_examples(source, TASK, paths.examples)


def test_curated_schema_decides_on_empty_texts(write, prepare):
    table = "text,label\n,no\nb,yes\n"
    source = write("csv", train=table, eval=table)
    splits, _ = prepare(source, TASK, schema_file="schema.pbtxt")
    assert len(splits["train"]) == len(splits["eval"]) == 2


def test_tfrecords_are_taken_as_they_are(tmp_path):
    for split in ("train", "eval"):
        row = records.example(text=[b"a"], label=[1])
        records.write(tmp_path / "data" / f"{split}.tfrecord", [row])
    paths = OutputPaths(tmp_path / "output", "name")
    with refused("E-settings-refused", setting="data.on_bad_rows"):
        examples_lib.resolve_examples(
            str(tmp_path / "data"), TASK, paths.examples, settings=SKIP
        )


def test_card_has_the_source_of_the_rows_and_their_counts(tmp_path, source, prepare):
    prepare(source, TASK, on_bad_rows="skip", license="CC-BY-4.0")
    target = tmp_path / "records"
    card = examples_lib.find_examples(str(target)).card
    assert card.source == source
    assert len(card.fingerprint) == 64
    assert card.files == [
        'train.csv, eval.csv: csv: comma, quoted, a quote in a field is ""'
    ]
    assert card.splits["train"].model_dump() == {"rows": 2, "bad": 5, "left_out": 0}
    assert card.splitting is None
    assert (card.on_bad_rows, card.license) == ("skip", "CC-BY-4.0")
    assert card.skipped_file == str(target / "skipped.jsonl")


def test_card_of_a_split_file_has_the_seed(tmp_path, prepare):
    path = tmp_path / "all.csv"
    rows = "".join(f"text {n},{n % 2}\n" for n in range(40))
    path.write_text("text,label\n" + rows)
    prepare(path, TASK, split_seed=7, test_size=0.25)
    card = examples_lib.find_examples(str(tmp_path / "records")).card
    sizes = {"test_size": 0.25, "eval_size": 0.1}
    assert card.splitting == {**sizes, "group_column": None, "split_seed": 7}


def test_card_of_an_unknown_format_is_refused(tmp_path, source, prepare):
    prepare(source, TASK, on_bad_rows="skip")
    path = tmp_path / "records" / "data_card.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "format": content["format"] + 1}))
    with refused("E-file-format-other", setting=str(path), got="its format is 2"):
        examples_lib.find_examples(str(path.parent))


def test_file_of_another_program_with_the_name_of_a_card_is_ignored(tmp_path):
    for split in ("train", "eval"):
        row = records.example(text=[b"a"], label=[1])
        records.write(tmp_path / f"{split}.tfrecord", [row])
    (tmp_path / "data_card.json").write_text('{"title": "my data"}')
    assert examples_lib.find_examples(str(tmp_path)).card.source == str(tmp_path)
