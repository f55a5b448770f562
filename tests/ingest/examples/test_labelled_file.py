"""Files of labelled rows in the formats of data, and rows that are refused."""

import json
import re

import pyarrow as pa
import pytest
from pyarrow import parquet

from contracts.records.labelled_rows import LabelledRow
from contracts.task.definition import TaskConfig
from ingest.examples import labelled_file
from tests import records
from tests.refusals import refused

SETTING = "checks.required_rows.file"
TASK = TaskConfig(text_columns=["text"], classes=["bad", "good"])
SCORES = TaskConfig(text_columns=["first", "second"], label_range=[0.0, 5.0])
LABELS = {"text_columns": ["text"], "kind": "multilabel", "classes": ["joy", "love"]}
EXPECTED = [
    LabelledRow(texts={"text": "a fine film"}, label=1, group="plain"),
    LabelledRow(texts={"text": "not, bad"}, label=0, why="a negation"),
]


def read(path, task=TASK):
    return labelled_file.read(str(path), task, SETTING)


def write(folder, text, name="rows.csv"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", 'text,label,group,why\na fine film,good,plain,\n"not, bad",bad,,'),
        (
            "rows.tsv",
            "text\tlabel\tgroup\twhy\na fine film\t1\tplain\t\nnot, bad\t0\t\t",
        ),
    ],
)
def test_delimited_files_have_names_or_indices_of_classes(tmp_path, name, text):
    assert read(write(tmp_path, f"{text}a negation\n", name)) == EXPECTED


def test_json_lines_and_parquet_have_the_same_rows(tmp_path):
    rows = [
        {"text": "a fine film", "label": "good", "group": "plain", "idx": "first"},
        {"text": "not, bad", "label": "bad", "why": "a negation", "idx": "second"},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    assert read(write(tmp_path, lines, "rows.jsonl")) == EXPECTED
    names = ("text", "label", "group", "why")
    columns = {name: [row.get(name) for row in rows] for name in names}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet") == EXPECTED


def test_examples_have_indices(tmp_path):
    rows = [
        records.example(text=[b"a fine film"], label=[1], group=[b"plain"]),
        records.example(text=[b"not, bad"], label=[0], why=[b"a negation"]),
    ]
    records.write(tmp_path / "rows.tfrecord", rows)
    assert read(tmp_path / "rows.tfrecord") == EXPECTED


def test_indices_and_names_in_one_file_are_refused(tmp_path):
    path = write(tmp_path, "text,label\na,0\nb,good\n")
    got = re.compile(r"rows\.csv:2: label is '0'; allowed are bad, good \(if each")
    with refused("E-rows-refused", got=got):
        read(path)


def test_score_has_its_lowest_and_highest_value(tmp_path):
    path = write(tmp_path, "first,second,lowest,highest\na,b,2,3.5\n", "rows.csv")
    (row,) = read(path, SCORES)
    assert row == LabelledRow(
        texts={"first": "a", "second": "b"}, lowest=2.0, highest=3.5
    )


@pytest.mark.parametrize(
    ("values", "got"),
    [
        ("4,3", "lowest is 4, which is above highest, 3"),
        ("2,9", "highest is '9'; allowed are numbers from 0.0 to 5.0"),
        ("low,3", "lowest is 'low'; allowed are numbers"),
    ],
)
def test_score_that_no_row_can_have_is_refused(tmp_path, values, got):
    path = write(tmp_path, f"first,second,lowest,highest\na,b,{values}\n")
    with refused("E-rows-refused", setting=SETTING, got=re.compile(re.escape(got))):
        read(path, SCORES)


def test_several_labels_are_in_a_cell_or_in_columns(tmp_path):
    cells = TaskConfig(**LABELS, label_separator="|")
    path = write(tmp_path, "text,label\nboth,joy|love\nneither,\n")
    assert [row.label for row in read(path, cells)] == [[1, 1], [0, 0]]
    path = write(tmp_path, "text,joy,love\none,0,1\n")
    assert [row.label for row in read(path, TaskConfig(**LABELS))] == [[0, 1]]


def test_bad_rows_are_refused_with_file_and_line(tmp_path):
    bad = "".join(f"text {row},great\n" for row in range(6))
    path = write(tmp_path, f"text,label\nfine,good\n,bad\n{bad}")
    with refused("E-rows-refused", setting=SETTING) as caught:
        read(path)
    first, second, *_, last = caught.value.got.split("\n  ")
    assert first == "7 rows cannot be used:"
    assert second == f"{path}:3: text is '', which has no visible character"
    assert f"{path}:4: label is 'great'; allowed are" in caught.value.got
    assert last == "and 2 more"


def test_file_that_is_missing_damaged_or_empty_is_refused(tmp_path):
    with refused("E-data-not-found", setting=SETTING):
        read(tmp_path / "rows.csv")
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 and no more")
    with refused("E-file-damaged"):
        read(path)
    with refused("E-rows-refused", got=re.compile("has no rows")):
        read(write(tmp_path, "text,label\n"))


def test_texts_for_a_tokenized_task_are_refused(tmp_path):
    with refused("E-settings-refused", setting=SETTING):
        read(write(tmp_path, "text,label\na,b\n"), TaskConfig(input="tokenized"))
