"""A row that cannot be predicted is refused with its location, and no other row."""

import json
import os
import re

import pyarrow as pa
import pytest
from pyarrow import parquet

from ingest.examples import tf_examples
from prediction.batch import job
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from tests.nightly import nightly
from tests.prediction.batch.conftest import read_shards, write_examples, write_rows
from tests.prediction.batch.in_process import predict_files
from tests.refusals import refused

pytestmark = pytest.mark.slow

GOOD = {"left": "a", "right": "."}


def read_refused(directory):
    paths = directory.glob("refused-*.jsonl")
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda row: row["row"])


@pytest.mark.parametrize(
    ("name", "lines", "refused"),
    [
        (
            "in.jsonl",
            [
                b'{"left": "a", "right": "."}',
                b'{"left": "a"',
                b'["a"]',
                b'{"left": "a"}',
                b'{"left": "a", "right": 3}',
                b'{"left": "a", "right": null}',
                b'{"left": "\xff", "right": "."}',
                b'{"left": "\\ud800", "right": "."}',
                b'{"left": "a", "right": ".", "other": ["\\uDFFF"]}',
                b'{"left": "a", "right": ".", "n\\ud800": 1}',
                b'{"left": "a", "right": ".", "n": ' + b"1" * 5000 + b"}",
                b"",
                b'{"left": "b", "right": "."}',
            ],
            {
                2: "not JSON",
                3: "not a JSON object",
                4: "no column right; the model takes text in left and right",
                5: "column right is '3', not text",
                6: "column right is 'None', not text",
                7: "is not utf-8",
                8: "column left is not Unicode text",
                9: "column other is not Unicode text",
                10: "column n\\ud800 is not Unicode text",
                11: "not JSON: Exceeds the limit (4300 digits)",
            },
        ),
        nightly(
            "in.tsv",
            [
                b"left\tright",
                b"a\t.",
                b"a",
                b"a\tb\tc",
                b"\xff\tb",
                b"a\rb\tc",
                b"b\t.",
            ],
            {
                3: "1 field, the header has 2",
                4: "3 fields, the header has 2",
                5: "is not utf-8",
                6: "not a line of this dialect (tab, no quoting)",
            },
        ),
    ],
)
def test_malformed_line_is_refused_with_its_number(
    longer, tmp_path, name, lines, refused
):
    (tmp_path / name).write_bytes(b"\n".join(lines) + b"\n")
    summary = predict_files(longer, str(tmp_path / name), str(tmp_path / "out"))
    rows = read_refused(tmp_path / "out")
    assert summary.refused == len(refused)
    assert [row["row"] for row in rows] == [*refused]
    for row in rows:
        assert row["file"] == str(tmp_path / name)
        assert refused[row["row"]] in row["reason"]
    kind = name.partition(".")[2]
    predicted = read_shards(tmp_path / "out", kind)
    assert [row["left"] for row in predicted] == ["a", "b"]


def test_example_without_its_feature_is_refused(longer, tmp_path):
    records = [
        tf_examples.from_row(GOOD),
        tf_examples.from_row({"left": "a"}),
        tf_examples.from_row({"left": "a", "right": 3}),
        tf_examples.from_row({"left": "a", "right": ["b", "c"]}),
        tf_examples.from_row({"left": b"\xff", "right": "b"}),
        b"no example",
    ]
    source = write_examples(tmp_path / "in.tfrecord", records)
    summary = predict_files(longer, str(source), str(tmp_path / "out"))
    assert (summary.predicted, summary.refused) == (1, 5)
    refused = {row["row"]: row["reason"] for row in read_refused(tmp_path / "out")}
    assert [*refused] == [2, 3, 4, 5, 6]
    assert "no feature right" in refused[2]
    assert "has 0 values" in refused[3]
    assert "has 2 values" in refused[4]
    assert "is not UTF-8" in refused[5]
    assert "not a tf.Example" in refused[6]


def test_example_that_the_model_fails_on_does_not_affect_others(
    longer, tmp_path, monkeypatch
):
    monkeypatch.setattr(job, "check_features", lambda serialized, expected: None)
    rows = [GOOD, {**GOOD, "left": ["two", "texts"]}, GOOD, GOOD]
    source = write_rows(tmp_path / "in.tfrecord", rows)
    summary = predict_files(longer, str(source), str(tmp_path / "out"))
    assert (summary.predicted, summary.refused) == (3, 1)
    (refused,) = read_refused(tmp_path / "out")
    assert refused["reason"].startswith("the model fails:")


def test_rows_before_the_damage_of_a_file_are_predicted(longer, tmp_path):
    write_rows(tmp_path / "a.tfrecord", [GOOD] * 3)
    broken = write_rows(tmp_path / "b.tfrecord", [GOOD] * 3)
    broken.write_bytes(broken.read_bytes()[:-5])
    summary = predict_files(longer, str(tmp_path / "*.tfrecord"), str(tmp_path / "out"))
    assert (summary.predicted, summary.refused) == (5, 1)
    (refused,) = read_refused(tmp_path / "out")
    assert (refused["file"], refused["row"]) == (str(broken), 3)
    assert "the file cannot be read from here" in refused["reason"]


@pytest.mark.nightly
def test_file_that_is_not_parquet_is_refused_by_name(longer, tmp_path):
    write_rows(tmp_path / "a.parquet", [GOOD])
    (tmp_path / "b.parquet").write_text("not Parquet")
    write_rows(tmp_path / "c.parquet", [GOOD])
    target = tmp_path / "out"
    summary = predict_files(longer, str(tmp_path / "*.parquet"), str(target))
    assert (summary.predicted, summary.refused) == (2, 1)
    (refused,) = read_refused(target)
    assert (refused["file"], refused["row"]) == (str(tmp_path / "b.parquet"), 1)


@pytest.mark.nightly
@pytest.mark.parametrize("suffix", ["jsonl", "tfrecord"])
def test_damaged_gzip_is_refused_by_name(longer, tmp_path, suffix):
    write_rows(tmp_path / f"a.{suffix}.gz", [GOOD])
    write_rows(tmp_path / f"plain.{suffix}", [GOOD]).rename(tmp_path / f"b.{suffix}.gz")
    rows = [{"left": os.urandom(40).hex(), "right": "."} for _ in range(2000)]
    cut = write_rows(tmp_path / f"c.{suffix}.gz", rows)
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    summary = predict_files(longer, str(tmp_path / "*.gz"), str(tmp_path / "out"))
    refused = {row["file"]: row for row in read_refused(tmp_path / "out")}
    assert [*map(os.path.basename, refused)] == [f"b.{suffix}.gz", f"c.{suffix}.gz"]
    for row in refused.values():
        assert "the file cannot be read from here" in row["reason"]
    assert 700 < summary.predicted < 1100
    assert refused[str(cut)]["row"] == summary.predicted


def test_value_of_parquet_that_python_cannot_hold_is_refused(longer, tmp_path):
    days = pa.array([0, 10**7, 1, 2], pa.int32()).view(pa.date32())
    raw = pa.array([b"a", b"b", b"\xff", b"c"])
    text = pa.Array.from_buffers(pa.string(), 4, raw.buffers())
    table = pa.table({"left": ["a"] * 4, "right": ["."] * 4, "day": days, "text": text})
    parquet.write_table(table, tmp_path / "in.parquet")
    target = tmp_path / "out"
    summary = predict_files(longer, str(tmp_path / "in.parquet"), str(target))
    assert (summary.predicted, summary.refused) == (2, 2)
    refused = sorted(read_refused(target), key=lambda row: row["row"])
    assert [row["row"] for row in refused] == [2, 3]
    assert "column day has a value that cannot be read: date" in refused[0]["reason"]
    assert "column text has a value that cannot be read: 'utf" in refused[1]["reason"]
    assert [row["text"] for row in read_shards(target, "parquet")] == ["a", "c"]


def test_corrupt_page_of_parquet_loses_the_rest_of_its_row_group(
    longer, tmp_path, monkeypatch
):
    monkeypatch.setattr("ingest.rows.arrow_readers._ROWS_AT_A_TIME", 100)
    path = tmp_path / "in.parquet"
    rows = [{**GOOD, "text": f"text {n}", "n": n} for n in range(1000)]
    layout = {"write_batch_size": 100, "data_page_size": 500, "use_dictionary": False}
    table = pa.Table.from_pylist(rows)
    parquet.write_table(table, path, row_group_size=500, **layout)
    column = parquet.ParquetFile(path).metadata.row_group(0).column(2)
    content = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 300] = b"\xff" * 300
    path.write_bytes(content)
    summary = predict_files(longer, str(path), str(tmp_path / "out"))
    refused = read_refused(tmp_path / "out")
    first = min(row["row"] for row in refused)
    assert 100 < first < 400
    assert [row["row"] for row in refused] == [*range(first, 501)]
    assert {row["file"] for row in refused} == {str(path)}
    assert "the row group cannot be read from here" in refused[0]["reason"]
    predicted = sorted(row["n"] for row in read_shards(tmp_path / "out", "parquet"))
    assert predicted == [*range(first - 1), *range(500, 1000)]
    assert summary.read == 1000


@pytest.mark.parametrize(
    ("kind", "predicted"), [("parquet", 1), nightly("tfrecord", 2), nightly("jsonl", 3)]
)
def test_integer_of_many_digits_does_not_stop_a_job(longer, tmp_path, kind, predicted):
    rows = [{**GOOD, "n": 1}, {**GOOD, "n": 10**30}, {**GOOD, "n": 10**4000}]
    source = write_rows(tmp_path / "in.jsonl", rows)
    target = str(tmp_path / "out")
    summary = predict_files(longer, str(source), target, output_format=kind)
    assert (summary.predicted, summary.refused) == (predicted, 3 - predicted)


def test_row_that_the_format_cannot_hold_is_refused(longer, tmp_path):
    rows = [GOOD, {**GOOD, "left": "a\tb"}, {**GOOD, "more": "c"}]
    source = write_rows(tmp_path / "in.jsonl", rows)
    predict_files(longer, str(source), str(tmp_path / "out"), output_format="tsv")
    reasons = [row["reason"] for row in read_refused(tmp_path / "out")]
    assert len(reasons) == 1
    assert "TSV cannot hold a value" in reasons[0]
    # A missing value is empty.
    values = sorted(row["more"] for row in read_shards(tmp_path / "out", "tsv"))
    assert values == ["", "c"]
    source = write_rows(tmp_path / "types.jsonl", [{**GOOD, "n": 1}] * 200)
    with open(source, "a") as file:
        file.write(json.dumps({**GOOD, "n": "x"}) + "\n" + json.dumps({**GOOD, "o": 1}))
    target = tmp_path / "tables"
    summary = predict_files(longer, str(source), str(target), output_format="parquet")
    assert (summary.predicted, summary.refused) == (200, 2)
    reasons = [row["reason"] for row in read_refused(target)]
    assert "a value does not fit the schema" in reasons[0]
    assert "column o is not one of the columns of the first rows" in reasons[1]


def test_strict_refuses_all_for_one_row(longer, tmp_path):
    (tmp_path / "in.tsv").write_text("left\tright\na\t.\nb\n")
    source, got = str(tmp_path / "in.tsv"), re.compile(r"^1 of 2 .*in\.tsv:3: 1 field")
    with refused("E-rows-refused", setting="source", got=got):
        predict_files(longer, source, str(tmp_path / "out"), is_strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


@pytest.mark.parametrize("name", ["in.tsv", "in.jsonl", "in.parquet", "in.tfrecord"])
def test_files_of_other_columns_are_refused_before_the_model_is_loaded(
    longer, tmp_path, monkeypatch, name
):
    source = write_rows(tmp_path / name, [{"left": "a", "wrong": "b"}] * 3)
    monkeypatch.setattr(SavedModelPredictor, "__init__", None)
    got = re.compile("^none of the first 3 rows.* right; the model")
    with refused("E-rows-refused", setting="source", got=got):
        predict_files(longer, str(source), str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_model_without_a_signature_for_examples_is_refused(scorer, tmp_path):
    source = write_rows(tmp_path / "in.tfrecord", [{"sentence": "a"}])
    got = re.compile("no signature serve_examples")
    with refused("E-format-unknown", setting="model", got=got):
        predict_files(scorer, str(source), str(tmp_path / "out"))


def test_least_probability_of_a_score_is_refused_before_anything_is_written(
    scorer, tmp_path
):
    source = write_rows(tmp_path / "in.tsv", [{"sentence": "the cat"}])
    with refused("E-options-conflict", setting="min_probability"):
        predict_files(scorer, str(source), str(tmp_path / "out"), min_probability=0.5)
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]
