"""Every format gives the rows of the prediction without Beam."""

import json
import re

import pyarrow as pa
import pytest
from pyarrow import parquet

from contracts.settings.data import DataConfig
from tests import exported
from tests.nightly import nightly
from tests.prediction.batch.conftest import (
    ROWS,
    read_shards,
    write_examples,
    write_rows,
)
from tests.prediction.batch.in_process import predict_files
from tests.prediction.predicting import predict_file
from tests.refusals import refused

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
    predict_file(model, write_rows(source, rows), target)
    return read_shards(directory, "jsonl", "expected")


@pytest.fixture(scope="module")
def expected(longer, tmp_path_factory):
    return predict_without_beam(longer, tmp_path_factory.mktemp("expected"), ROWS)


@pytest.mark.parametrize(
    "name",
    [
        "in.tsv",
        "in.tfrecord",
        *map(nightly, ("in.jsonl", "in.parquet", "in.tf_record.gz")),
    ],
)
def test_each_format_gives_the_rows_of_the_prediction_without_beam(
    longer, expected, tmp_path, name
):
    source = write_rows(tmp_path / name, ROWS)
    target = tmp_path / "out"
    summary = predict_files(longer, str(source), str(target), batch_rows=3)
    kind = name.split(".")[1].replace("_", "")
    check(target, kind, expected)
    assert (summary.read, summary.predicted, summary.refused) == (4, 4, 0)
    assert summary.classes == {"first": 2, "second": 2}
    content = json.loads((target / "summary.json").read_text())
    assert content["model"] == f"{longer}/7"
    assert content["version"] == "7"
    assert content["runner"] == "FnApiRunner"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "out"]


@pytest.mark.nightly
def test_exported_model_predicts_in_batches_as_before_its_export(pairs, tmp_path):
    texts = exported.PAIRS[:-1]
    assert exported.PAIRS[-1] == ("", "")  # refused
    rows = [
        {"n": n, **dict(zip(pairs.task.text_columns, pair, strict=True))}
        for n, pair in enumerate(texts)
    ]
    source, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out"
    predict_files(str(pairs.directory), str(source), str(target), batch_rows=2)
    predicted = sorted(read_shards(target, "jsonl"), key=lambda row: row["n"])
    shares = pairs.probabilities[: len(texts)]
    for row, source_row, expected in zip(predicted, rows, shares, strict=True):
        assert {name: row[name] for name in source_row} == source_row
        assert row["prediction"] == pairs.task.classes[expected.argmax()]
        assert row["probability"] == pytest.approx(expected.max(), abs=1e-5)


@pytest.mark.parametrize(
    ("input_format", "output_format"),
    [
        nightly("tsv", "jsonl"),
        nightly("jsonl", "parquet"),
        nightly("parquet", "tfrecord"),
        ("tfrecord", "csv"),
        nightly("csv", "tsv"),
        nightly("arrow", "csv"),
    ],
)
def test_rows_with_and_without_a_class_are_written_in_another_format(
    longer, tmp_path, input_format, output_format
):
    rows = [{"n": str(i), "left": "a" * (i + 1), "right": "aaa"} for i in range(5)]
    source = write_rows(tmp_path / f"in.{input_format}", rows)
    summary = predict_files(
        longer,
        str(source),
        str(tmp_path / "out"),
        output_format=output_format,
        min_probability=0.8,
    )
    predicted = read_shards(tmp_path / "out", output_format)
    predicted.sort(key=lambda row: row["n"])
    values = ["first"] * 2 + [None] + ["second"] * 2
    for row, source_row, value in zip(predicted, rows, values, strict=True):
        share = 0.6 if value is None else 0.9
        assert float(row.pop("probability")) == pytest.approx(share)
        # No text in tables, no feature in an Example.
        assert (row.pop("prediction", None) or None) == value
        assert row == source_row
    assert (summary.predicted, summary.abstained) == (5, 1)
    assert summary.classes == {"first": 2, "second": 2}


@pytest.mark.parametrize(
    "name", ["tfrecord", *map(nightly, ("csv", "jsonl", "parquet"))]
)
def test_columns_of_the_input_named_as_ours_are_kept_under_another_name(
    longer, tmp_path, name
):
    quoted = 'a "b", c\nd'
    rows = [{"left": "ab", "right": ".", "prediction": quoted, "probability": "y"}]
    source = write_rows(tmp_path / f"in.{name}", rows)
    predict_files(longer, str(source), str(tmp_path / "out"))
    (row,) = read_shards(tmp_path / "out", name)
    assert float(row.pop("probability")) == pytest.approx(0.9)
    assert row == {
        "left": "ab",
        "right": ".",
        "input_prediction": quoted,
        "input_probability": "y",
        "prediction": "second",
    }


def test_examples_of_tokens_get_the_predictions_of_their_text(
    token_scores, vocab_file, tmp_path
):
    task = token_scores.task
    texts = [pair[:1] for pair in exported.PAIRS]
    rows = exported.rows_of(task, texts, [0.5] * len(texts), vocab_file)
    source = write_examples(tmp_path / "a.tfrecord", map(exported.serialize, rows))
    model = str(token_scores.directory)
    summary = predict_files(model, str(source), str(tmp_path / "out"))
    predicted = {
        row[task.id_column]: row for row in read_shards(tmp_path / "out", "tfrecord")
    }
    for index, (score,) in enumerate(token_scores.logits):
        assert predicted[index]["prediction"] == pytest.approx(score, abs=1e-5)
        assert predicted[index]["input_ids"] == rows[index]["input_ids"]
        assert "probability" not in predicted[index]
    assert summary.mean_score == pytest.approx(token_scores.logits.mean(), abs=1e-5)


@pytest.mark.parametrize(
    "output_format", ["parquet", *map(nightly, ("tfrecord", "jsonl", "csv"))]
)
def test_labels_and_their_probabilities_are_columns(labeller, tmp_path, output_format):
    rows = [{"n": str(n), "sentence": text} for n, text in enumerate(("ab", "b", "c"))]
    source = write_rows(tmp_path / "in.tsv", rows)
    summary = predict_files(
        labeller, str(source), str(tmp_path / "out"), output_format=output_format
    )
    predicted = read_shards(tmp_path / "out", output_format)
    predicted.sort(key=lambda row: row["n"])
    labels = [["with a", "with b"], ["with b"], []]
    if output_format == "csv":
        labels = ["|".join(names) for names in labels]
    elif output_format == "tfrecord":  # lists of one value and of none
        labels = [labels[0], "with b", None]
    assert [row["prediction"] for row in predicted] == labels
    shares = [float(row["probability_with b"]) for row in predicted]
    assert shares == pytest.approx([0.9, 0.9, 0.2])
    assert summary.classes == {"with a": 1, "with b": 2}


@pytest.mark.nightly
def test_single_sentences_get_a_score(scorer, tmp_path):
    source = write_rows(
        tmp_path / "in.tsv", [{"sentence": "the cat"}, {"sentence": "a"}]
    )
    summary = predict_files(scorer, str(source), str(tmp_path / "out"))
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


@pytest.mark.parametrize(
    ("name", "reading"),
    [("rows", DataConfig(format="arrow")), nightly("in.arrow", DataConfig())],
    ids=["by setting", "by name"],
)
def test_arrow_is_written_as_parquet_and_its_format_can_be_set(
    longer, tmp_path, name, reading
):
    source = write_rows(tmp_path / "in.arrow", [{"left": "a", "right": "."}])
    source = source.rename(tmp_path / name)
    predict_files(longer, str(source), str(tmp_path / "out"), reading=reading)
    (row,) = read_shards(tmp_path / "out", "parquet")
    assert row["left"] == "a"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.tsv", b"left\tright\r\nab\tc\r\nd\tef"),
        ("in.jsonl", b'{"left": "ab", "right": "c"}\r\n{"left": "d", "right": "ef"}'),
    ],
)
def test_lines_of_other_systems_are_read(longer, tmp_path, name, content):
    source = tmp_path / name
    source.write_bytes(b"\xef\xbb\xbf" + content)
    predict_files(longer, str(source), str(tmp_path / "out"))
    rows = read_shards(tmp_path / "out", name.partition(".")[2])
    assert [(row["left"], row["right"]) for row in rows] == [("ab", "c"), ("d", "ef")]


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
    with refused("E-rows-refused", got=re.compile("the column 'left' more than")):
        predict_files(longer, str(source), str(tmp_path / "out"))
