"""Rows with several labels: every form and format that they are read in."""

import csv
import json
import re

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from contracts.task.definition import TaskConfig
from ingest import examples
from tests import records
from tests.refusals import refused

NAMES = ["joy", "love", "anger"]
ROWS = [["joy", "love"], [], ["anger"]]
FLAGS = [[1, 1, 0], [0, 0, 0], [0, 0, 1]]


def task(separator="|", **settings):
    return TaskConfig(
        kind="multilabel",
        text_columns=["text"],
        label_column="labels",
        classes=NAMES,
        label_separator=separator,
        **settings,
    )


@pytest.fixture
def prepare(prepare):
    """Returns the labels of each split."""

    def prepare_labels(source, task, name="records"):
        splits, _ = prepare(source, task, name)
        return {s: [row["labels"] for row in rows] for s, rows in splits.items()}

    return prepare_labels


def write(tmp_path, name, rows, splits=("train", "eval")):
    """Writes the same rows as each split, in the format of the name."""
    folder = tmp_path / "data"
    folder.mkdir()
    for split in splits:
        path = folder / f"{split}{name}"
        if name == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif name == ".parquet":
            pd.DataFrame(rows).to_parquet(path)
        else:
            with path.open("w", newline="") as file:
                delimiter = "\t" if name == ".tsv" else ","
                writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
                writer.writeheader()
                writer.writerows(rows)
    return folder


def rows_of(labels):
    return [{"text": f"text {n}", "labels": value} for n, value in enumerate(labels)]


def flagged(rows):
    """Returns rows with a column for each label."""
    return [
        {"text": f"text {n}", **dict(zip(NAMES, flags, strict=True))}
        for n, flags in enumerate(rows)
    ]


def write_features(tmp_path, feature, **columns):
    """Writes Parquet with a feature of `labels` as Hugging Face's datasets write it."""
    metadata = {"huggingface": json.dumps({"info": {"features": {"labels": feature}}})}
    table = pa.table({"text": ["a", "b", "c"], **columns})
    (tmp_path / "data").mkdir()
    for split in ("train", "validation"):
        path = tmp_path / "data" / f"{split}.parquet"
        parquet.write_table(table.replace_schema_metadata(metadata), path)
    return tmp_path / "data"


@pytest.mark.parametrize("name", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_every_format_has_a_column_of_0_and_1_for_each_label(tmp_path, prepare, name):
    source = write(tmp_path, name, flagged(FLAGS))
    assert prepare(source, task(None))["train"] == FLAGS


@pytest.mark.parametrize(
    ("name", "separator", "labels"),
    [
        (".csv", "|", ["joy|love", "", "anger"]),
        (".csv", ",", ["love, joy", " ", " anger "]),
        (".csv", ",", ["['joy', 'love']", "[]", "['anger']"]),  # written by pandas
        (".csv", "|", ["{'joy', 'love'}", "{}", "('anger',)"]),
        (".csv", "|", ["['joy' 'love']", "['']", '["\\u0061nger"]']),
        (".csv", "#", ["joy # love#", "", "anger#anger"]),
        (".csv", " ", ["love  joy", "", "anger "]),
        (".csv", "\n", ["love\njoy\n", "", "anger"]),
        (".csv", "__label__", ["__label__joy __label__love", "", "__label__anger"]),
        (".tsv", ",", ["0,1", "", "2"]),
        (".jsonl", "|", ["joy|love", "", "anger"]),
        (".jsonl", "|", ROWS),
        (".jsonl", "|", [[1, 0], [], [2]]),
        (".parquet", "|", ROWS),
    ],
)
def test_one_column_has_names_or_indices_of_any_number_of_labels(
    tmp_path, prepare, name, separator, labels
):
    source = write(tmp_path, name, rows_of(labels))
    assert prepare(source, task(separator))["eval"] == FLAGS


def test_booleans_and_floats_of_pandas_are_0_and_1(tmp_path, prepare):
    values = [[True, 1.0, "0"], [False, 0.0, "0"], ["false", "0.0", "TRUE"]]
    source = write(tmp_path, ".jsonl", flagged(values))
    assert prepare(source, task(None))["train"] == FLAGS


def test_name_after_indices_makes_all_labels_names(tmp_path):
    source = write(tmp_path, ".tsv", rows_of(["0,1", "joy"]))
    lines = []
    got = re.compile(r"tsv:2: labels has '0'; allowed are joy, lo")
    with refused("E-rows-refused", got=got):
        examples.prepare(str(source), str(tmp_path / "r"), task(","), lines.append)
    assert any(
        "labels joy is not the index of a class, so that" in line for line in lines
    )


def test_class_names_of_hugging_face_datasets_are_those_of_the_indices(
    tmp_path, prepare
):
    label = {"names": NAMES[::-1], "_type": "ClassLabel"}
    feature = {"feature": label, "_type": "Sequence"}
    source = write_features(tmp_path, feature, labels=[[2, 1], [], [0]])
    assert prepare(source, task())["eval"] == FLAGS


@pytest.mark.parametrize(
    ("separator", "row", "reason"),
    [
        (None, {"joy": 2}, "joy is '2'; allowed are 0 and 1"),
        (None, {"joy": ""}, "joy is ''; allowed are 0 and 1"),
        ("|", {"labels": "joy|lov"}, "labels has 'lov'; allowed are joy, love, anger"),
        ("|", {"labels": "joy||love"}, "labels has '', which stands for a missing"),
        ("|", {"labels": '[{"id": 0}]'}, """labels is '[{"id": 0}]', a list of obj"""),
        (" ", {"labels": "0 0 1"}, "labels is '0 0 1', which looks like 0 or 1 for ea"),
        ("|", {"labels": "[null]"}, "labels is '[null]', a list with a null"),
        ("|", {"labels": "[0.5]"}, "a list of numbers with decimals, not of labels"),
        ("|", {"labels": "NA"}, "labels has 'NA', which stands for a missing value"),
        ("|", {"labels": [0, 1, 0]}, "[0, 1, 0], which looks like 0 or 1 for ea"),
        ("|", {"labels": None}, "labels has no value"),
        ("|", {"labels": [None]}, "[None], a list with a null"),
    ],
)
def test_row_with_another_value_is_refused_with_file_and_line(
    tmp_path, prepare, separator, row, reason
):
    first = {"text": "one", **dict.fromkeys(NAMES, "0"), "labels": "", **row}
    is_csv = isinstance(next(iter(row.values())), str | int)
    name, line = (".csv", 2) if is_csv else (".jsonl", 1)
    source = write(tmp_path, name, [first, {**first, "text": "two"}])
    got = re.compile(rf"/train{name}:{line}: .*{re.escape(reason)}")
    with refused("E-rows-refused", got=got):
        prepare(source, task(separator))


@pytest.mark.parametrize(
    ("separator", "setting", "missing"),
    [(None, "task.classes", "love, anger"), ("|", "task.label_column", "labels")],
)
def test_missing_column_is_refused_with_its_setting(
    tmp_path, prepare, separator, setting, missing
):
    source = write(tmp_path, ".csv", [{"text": "one", "joy": 1}])
    got = f"{source}/train.csv has no column {missing}"
    with refused("E-column-missing", setting=setting, got=got, allowed="text, joy"):
        prepare(source, task(separator))


@pytest.mark.parametrize("row", [[0, 1], [1, 0]])
def test_flags_of_two_labels_are_not_taken_for_indices(tmp_path, prepare, row):
    source = write(tmp_path, ".jsonl", rows_of([row, [1]]))
    two = task().model_copy(update={"classes": NAMES[:2]})
    got = re.compile(r"for each .* set `?task\.labels.*index")
    with refused("E-rows-refused", got=got):
        prepare(source, two)
    by_index = two.model_copy(update={"labels": "index"})
    assert prepare(source, by_index)["train"] == [[1, 1], [0, 1]]


def test_unused_label_column_has_no_say(tmp_path, prepare):
    """Its names are not those of the labels, and it stands for no column of them."""
    label = {"names": ["neg", "pos"], "_type": "ClassLabel"}
    flags = dict(zip(NAMES, zip(*FLAGS, strict=True), strict=True))
    source = write_features(tmp_path, label, labels=[0, 1, 0], **flags)
    assert prepare(source, task(None))["eval"] == FLAGS
    table = parquet.read_table(source / "train.parquet")
    parquet.write_table(table.drop(["love"]), source / "train.parquet")
    allowed = "text, labels, joy, anger"
    with refused("E-column-missing", setting="task.classes", allowed=allowed):
        prepare(source, task(None), "again")


def test_test_split_of_secret_labels_is_left_out(tmp_path):
    lines = []
    labelled = [{"text": "one", **dict.fromkeys(NAMES, n)} for n in (0, 1)]
    source = write(tmp_path, ".csv", labelled)
    secret = pd.DataFrame([{"text": "three", **dict.fromkeys(NAMES, -1)}])
    secret.to_csv(source / "test.csv", index=False)
    examples.prepare(str(source), str(tmp_path / "r"), task(None), lines.append)
    assert f"{source}/test.csv has only -1 for joy, love, anger: left out" in lines


def test_tfrecords_have_0_or_1_for_each_label(tmp_path):
    def write_records(folder, **columns):
        row = {"text": [b"one"], "idx": [0], **columns}
        for split in ("train", "eval"):
            path = tmp_path / folder / f"{split}.tfrecord.gz"
            records.write(path, [records.example(**row)])
        return str(tmp_path / folder)

    def resolve(source):
        return examples.resolve_examples(source, task(None), lambda key: tmp_path)

    source = write_records("good", labels=[0, 1, 1])
    assert resolve(source).directory == source
    for number, columns in enumerate(
        [{"labels": [0, 1]}, {"labels": [0, 2, 1]}, {"joy": [1], "love": [0]}]
    ):
        source = write_records(f"bad{number}", **columns)
        setting, got = f"{source}/train.tfrecord.gz:1", re.compile("^labels is ")
        allowed = re.compile("0 or 1 for each of the 3 task.classes")
        with refused("E-rows-refused", setting=setting, got=got, allowed=allowed):
            resolve(source)


def test_records_in_one_file_are_split(tmp_path, prepare):
    rows = [
        records.example(text=[b"text %d" % n], labels=FLAGS[n % 3], idx=[n])
        for n in range(30)
    ]
    source = records.write(tmp_path / "rows.tfrecord", rows)
    splits = prepare(source, task(None))
    labels = [flags for split in ("train", "eval", "test") for flags in splits[split]]
    assert sorted(labels) == sorted(FLAGS * 10)


def test_each_split_has_each_label(tmp_path, prepare):
    # `love` is the rarest label; some of its rows have `joy`, too.
    labels = ["joy"] * 100 + ["joy|love"] * 2 + ["love"] * 2 + ["anger"] * 4 + [""] * 90
    source = tmp_path / "rows.csv"
    pd.DataFrame(rows_of(labels)).to_csv(source, index=False)
    splits = prepare(source, task())
    assert list(splits) == ["train", "eval", "test"]
    for rows in splits.values():
        assert all(map(any, zip(*rows, strict=True)))
        assert [0, 0, 0] in rows


def test_label_of_one_text_cannot_be_in_two_splits(tmp_path, prepare):
    source = tmp_path / "rows.csv"
    rows = rows_of(["joy"] * 9 + ["love"] * 9 + ["joy|anger"])
    pd.DataFrame(rows).to_csv(source, index=False)
    got = re.compile("fewer than three different texts of anger, wh")
    with refused("E-class-too-small", setting="data.source", got=got):
        prepare(source, task())
