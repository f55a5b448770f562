"""Every format gives the rows of the prediction without Beam."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from ingest.config import DataConfig
from modules.errors import UsageError
from prediction.predict_file import predict_file
from prediction.predictor import Predictor
from tests import exported
from tests.nightly import nightly
from tests.prediction.batch.conftest import (
    ROWS,
    read_shards,
    write_examples,
    write_rows,
)
from tests.prediction.batch.in_process import predict_files

pytestmark = pytest.mark.slow


def check(target, file_format, expected):
    """Compares the rows of all shards with those of the prediction without Beam."""
    rows = sorted(read_shards(target, file_format), key=lambda row: row["n"])
    for row, expected_row in zip(rows, expected, strict=True):
        probability = float(row.pop("probability"))
        assert probability == pytest.approx(expected_row["probability"], abs=1e-5)
        assert {**row, "probability": expected_row["probability"]} == expected_row


def predict_without_beam(model, directory, rows):
    source, target = directory / "rows.jsonl", directory / "expected.jsonl"
    predict_file(model, str(write_rows(source, rows)), str(target))
    return read_shards(directory, "jsonl", "expected")


@pytest.fixture(scope="module")
def expected(longer, tmp_path_factory):
    return predict_without_beam(longer, tmp_path_factory.mktemp("expected"), ROWS)


@pytest.mark.parametrize(
    "name", ["in.tsv", "in.jsonl", "in.parquet", "in.tfrecord", "in.tf_record.gz"]
)
def test_each_format_gives_the_rows_of_the_prediction_without_beam(
    longer, expected, tmp_path, name
):
    source = write_rows(tmp_path / name, ROWS)
    target = tmp_path / "out"
    summary = predict_files(longer, str(source), str(target))
    kind = name.split(".")[1].replace("_", "")
    check(target, kind, expected)
    assert (summary.read, summary.predicted, summary.refused) == (4, 4, 0)
    assert summary.classes == {"first": 2, "second": 2}
    content = json.loads((target / "summary.json").read_text())
    assert content["model"] == f"{longer}/7"
    assert content["version"] == "7"
    assert content["runner"] == "FnApiRunner"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "out"]


def test_exported_model_predicts_in_batches_as_without_beam(pairs, tmp_path):
    rows = [
        {"n": row["n"], "question": row["left"], "answer": row["right"]} for row in ROWS
    ]
    expected = predict_without_beam(pairs, tmp_path, rows)
    source, target = str(tmp_path / "rows.jsonl"), tmp_path / "out"
    predict_files(pairs, source, str(target), batch_rows=3)
    check(target, "jsonl", expected)


@pytest.mark.parametrize(
    ("input_format", "output_format"),
    [
        ("tsv", "jsonl"),
        nightly("jsonl", "parquet"),
        ("parquet", "tfrecord"),
        ("tfrecord", "csv"),
        nightly("csv", "tsv"),
        nightly("arrow", "csv"),
    ],
)
def test_rows_are_written_in_another_format(
    longer, tmp_path, input_format, output_format
):
    rows = [{"n": str(i), "left": "a" * (i + 1), "right": "aaa"} for i in range(5)]
    source = write_rows(tmp_path / f"in.{input_format}", rows)
    predict_files(
        longer, str(source), str(tmp_path / "out"), output_format=output_format
    )
    predicted = read_shards(tmp_path / "out", output_format)
    predicted.sort(key=lambda row: row["n"])
    values = ["first"] * 3 + ["second"] * 2
    for row, source_row, value in zip(predicted, rows, values, strict=True):
        assert float(row.pop("probability")) == pytest.approx(0.9)
        assert row == {**source_row, "prediction": value}


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "tfrecord"])
def test_columns_of_the_input_named_as_ours_are_kept_under_another_name(
    longer, tmp_path, name
):
    rows = [{"left": "ab", "right": ".", "prediction": "x", "probability": "y"}]
    source = write_rows(tmp_path / f"in.{name}", rows)
    predict_files(longer, str(source), str(tmp_path / "out"))
    (row,) = read_shards(tmp_path / "out", name)
    assert float(row.pop("probability")) == pytest.approx(0.9)
    assert row == {
        "left": "ab",
        "right": ".",
        "input_prediction": "x",
        "input_probability": "y",
        "prediction": "second",
    }


def test_quoted_fields_of_csv_are_written_quoted(longer, tmp_path):
    rows = [{"left": 'a "b", c\nd', "right": "."}, {"left": "e", "right": "."}]
    source = write_rows(tmp_path / "in.csv", rows)
    predict_files(longer, str(source), str(tmp_path / "out"))
    predicted = read_shards(tmp_path / "out", "csv")
    assert {row["left"] for row in predicted} == {row["left"] for row in rows}


def test_arrow_is_written_as_parquet(longer, tmp_path):
    source = write_rows(tmp_path / "in.arrow", [{"left": "a", "right": "."}])
    predict_files(longer, str(source), str(tmp_path / "out"))
    (row,) = read_shards(tmp_path / "out", "parquet")
    assert row["left"] == "a"


def test_examples_of_tokens_get_the_predictions_of_their_text(
    token_scores, vocab_file, tmp_path
):
    texts = [("The cat sees the tree.",), ("a dog",), ("the " * 40,)]
    task = exported.TASKS["tokens of sentences"]
    rows = exported.rows_of(task, texts, [0.5] * 3, vocab_file)
    source = write_examples(tmp_path / "a.tfrecord", map(exported.serialize, rows))
    summary = predict_files(token_scores, str(source), str(tmp_path / "out"))
    predicted = {
        row[task.id_column]: row for row in read_shards(tmp_path / "out", "tfrecord")
    }
    for index, row in enumerate(Predictor(token_scores).predict(texts)):
        assert predicted[index]["prediction"] == pytest.approx(row.value, abs=1e-5)
        assert predicted[index]["input_ids"] == rows[index]["input_ids"]
        assert "probability" not in predicted[index]
    mean = sum(row["prediction"] for row in predicted.values()) / 3
    assert summary.mean_score == pytest.approx(mean, abs=1e-5)


def test_single_sentences_get_a_score(length, tmp_path):
    source = write_rows(
        tmp_path / "in.tsv", [{"sentence": "the cat"}, {"sentence": "a"}]
    )
    summary = predict_files(length, str(source), str(tmp_path / "out"))
    rows = read_shards(tmp_path / "out", "tsv")
    assert sorted(row["prediction"] for row in rows) == ["0.1", "0.7"]
    assert summary.mean_score == pytest.approx(0.4)
    assert summary.classes == {}


def test_glob_reads_several_files_each_with_its_header(longer, tmp_path):
    for n in range(3):
        write_rows(tmp_path / f"part-{n}.tsv", [{"left": f"{n}", "right": "."}])
    (tmp_path / "part-3.tsv").write_text("right\tleft\n.\tswapped\n")
    (tmp_path / "part-4.tsv").write_text("")
    (tmp_path / "part-5.tsv").write_text("left\tright\n")
    (tmp_path / "other.tsv").write_text("left\tright\nother\t\n")
    pattern = str(tmp_path / "part-*.tsv")
    summary = predict_files(longer, pattern, str(tmp_path / "out"))
    rows = read_shards(tmp_path / "out", "tsv")
    assert sorted(row["left"] for row in rows) == ["0", "1", "2", "swapped"]
    assert summary.classes == {"first": 3, "second": 1}


def test_table_without_rows_is_predicted_into_its_header(longer, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("n,left,right\n")
    assert predict_files(longer, str(source), str(tmp_path / "out")).read == 0
    (shard,) = (tmp_path / "out").glob("*.csv")
    assert shard.read_text() == "n,left,right,prediction,probability\n"


def test_directory_is_read_by_the_format_of_its_files(longer, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    write_rows(source / "a.jsonl", [{"left": "a", "right": "."}])
    write_rows(source / "b.jsonl.gz.jsonl", [{"left": "b", "right": "."}])
    for name in ("_SUCCESS", "notes.txt", ".hidden.jsonl"):
        (source / name).write_text("not JSON")
    summary = predict_files(longer, str(source), str(tmp_path / "out"))
    assert (summary.read, summary.refused) == (2, 0)


def test_format_can_be_set_if_names_do_not_show_it(longer, tmp_path):
    source = write_rows(tmp_path / "in.jsonl", [{"left": "a", "right": "."}])
    renamed = source.rename(tmp_path / "rows")
    target, reading = str(tmp_path / "out"), DataConfig(format="jsonl")
    assert predict_files(longer, str(renamed), target, reading=reading).read == 1


def test_lines_of_other_systems_are_read(longer, tmp_path):
    (tmp_path / "in.tsv").write_bytes(b"\xef\xbb\xbfleft\tright\r\nab\tc\r\nd\tef")
    predict_files(longer, str(tmp_path / "in.tsv"), str(tmp_path / "out"))
    rows = read_shards(tmp_path / "out", "tsv")
    assert [(row["left"], row["right"]) for row in rows] == [("ab", "c"), ("d", "ef")]
    (tmp_path / "in.jsonl").write_bytes(
        b'\xef\xbb\xbf{"left": "ab", "right": "c"}\r\n{"left": "d", "right": "ef"}'
    )
    predict_files(longer, str(tmp_path / "in.jsonl"), str(tmp_path / "lines"))
    rows = read_shards(tmp_path / "lines", "jsonl")
    assert [row["left"] for row in rows] == ["ab", "d"]


def test_parquet_keeps_its_types(longer, tmp_path):
    table = pa.table(
        {
            "left": ["a", "b"],
            "right": [".", "cc"],
            "small": pa.array([1, None], pa.int8()),
            "when": pa.array([0, 1], pa.timestamp("ms")),
            "many": pa.array([["x"], []], pa.list_(pa.string())),
        }
    )
    parquet.write_table(table, tmp_path / "in.parquet")
    predict_files(longer, str(tmp_path / "in.parquet"), str(tmp_path / "out"))
    (shard,) = (tmp_path / "out").glob("*.parquet")
    table_out = parquet.read_table(shard)
    assert table_out.select(table.column_names).equals(table)
    assert table_out.schema.types[-2:] == [pa.string(), pa.float64()]


def test_header_that_repeats_a_column_is_refused(longer, tmp_path):
    source = tmp_path / "in.tsv"
    source.write_text("left\tright\tleft\na\tbb\tccc\n")
    with pytest.raises(UsageError, match="the header has the column 'left' more than"):
        predict_files(longer, str(source), str(tmp_path / "out"))
