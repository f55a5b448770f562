"""Predictions of one file into one file."""

import gzip
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from contracts.settings.data import DataConfig
from contracts.versions import served_versions
from prediction.predictor import Predictor
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from tests.prediction.batch.conftest import write_rows
from tests.prediction.predicting import predict_file as predict
from tests.refusals import refused

pytestmark = pytest.mark.slow


IMPROBABLE = "left,right\nsame,same\nlonger,x\n"
LABELLED = '{"sentence": "ab", "tags": ["x"]}\n{"sentence": "c", "tags": []}'


@pytest.mark.parametrize(
    ("model", "source", "text", "target", "counts", "expected"),
    [
        (
            *("scorer", "in.tsv", "n\tsentence\n1\tthe cat\n", "out.tsv", (1, 0)),
            "n\tsentence\tprediction\n1\tthe cat\t0.7\n",
        ),
        (
            *("scorer", "in.csv", "sentence\n", "out.csv", (0, 0)),
            "sentence,prediction\n",
        ),
        (  # a spreadsheet in Europe
            *("served", "in.csv"),
            '\ufeffleft;right;n\r\n"a, ""b""";c;1\r\nd;"two\nlines";2\r\n',
            *("out.csv", (2, 0)),
            'left,right,n,prediction,probability\n"a, ""b""",c,1,second,0.9\n'
            'd,"two\nlines",2,first,0.9\n',
        ),
        (
            *("labeller", "in.jsonl", LABELLED, "out.tsv", (2, 0)),
            "sentence\ttags\tprediction\tprobability_with a\tprobability_with b\n"
            "ab\t['x']\twith a|with b\t0.9\t0.9\nc\t[]\t\t0.2\t0.2\n",
        ),
        (
            *("labeller", "in.jsonl", LABELLED, "out.jsonl", (2, 0)),
            '{"sentence": "ab", "tags": ["x"], "prediction": ["with a", "with b"], '
            '"probability_with a": 0.9, "probability_with b": 0.9}\n'
            '{"sentence": "c", "tags": [], "prediction": [], '
            '"probability_with a": 0.2, "probability_with b": 0.2}\n',
        ),
        (
            *("labeller", "in.csv", "sentence\n", "out.csv", (0, 0)),
            "sentence,prediction,probability_with a,probability_with b\n",
        ),
        (
            *("served", "in.csv", IMPROBABLE, "out.csv", (2, 1)),
            "left,right,prediction,probability\nsame,same,,0.6\nlonger,x,second,0.9\n",
        ),
        (
            *("served", "in.csv", IMPROBABLE, "out.jsonl", (2, 1)),
            '{"left": "same", "right": "same", "prediction": null, '
            '"probability": 0.6}\n'
            '{"left": "longer", "right": "x", "prediction": "second", '
            '"probability": 0.9}\n',
        ),
        (  # fields that the first row lacks, and characters that tables quote
            *("served", "in.jsonl"),
            '{"left": "a", "right": "bb"}\n'
            '{"id": "é", "left": "a\\tb\\n", "right": "."}',
            *("out.jsonl", (2, 0)),
            '{"left": "a", "right": "bb", "prediction": "first", "probability": 0.9}\n'
            '{"id": "é", "left": "a\\tb\\n", "right": ".", "prediction": "second", '
            '"probability": 0.9}\n',
        ),
        (  # columns that are named as ours
            *("served", "in.csv"),
            "prediction,left,input_probability,right,probability\nx,ab,y,.,z\n",
            *("out.csv", (1, 0)),
            "input_prediction,left,input_probability,right,input_input_probability,"
            "prediction,probability\nx,ab,y,.,z,second,0.9\n",
        ),
    ],
)
def test_file_is_predicted(
    request, tmp_path, model, source, text, target, counts, expected
):
    options = {"min_probability": 0.61} if model == "served" else {}
    model, source = request.getfixturevalue(model), tmp_path / source
    source.write_bytes(text.encode())
    assert predict(model, source, tmp_path / target, **options) == counts
    assert (tmp_path / target).read_bytes().decode() == expected


def test_table_keeps_its_columns_and_order_and_gets_two_more_columns(served, tmp_path):
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    rows = [f'{i}\t"quoted {i}\t{"x" * (i % 30 + 1)}' for i in range(600)]
    source.write_text("\n".join(["n\tleft\tright", *rows]) + "\n")
    assert predict(served, source, target) == (600, 0)
    lines = target.read_text().splitlines()
    assert lines[0] == "n\tleft\tright\tprediction\tprobability"
    assert [line.rsplit("\t", 2)[0] for line in lines[1:]] == rows
    assert lines[3] == f"{rows[2]}\tsecond\t0.9"


@pytest.mark.parametrize("name", ["in.parquet", "in.arrow", "in.jsonl.gz", "in.jsonl"])
def test_file_of_any_format_is_predicted_in_order(served, tmp_path, name):
    rows = [{"left": f"row {n}", "right": "x"} for n in range(300)]
    target = tmp_path / "out.csv"
    assert predict(served, write_rows(tmp_path / name, rows), target) == (300, 0)
    assert list(pd.read_csv(target)["left"]) == [row["left"] for row in rows]


def test_encoding_of_the_file_is_set(served, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes("left,right\ncafé,x\n".encode("cp1252"))
    got = re.compile("^column 4.*data.encoding=cp1252")
    with refused("E-rows-refused", setting=f"{source}:2", got=got):
        predict(served, source, target)
    settings = DataConfig(encoding="cp1252")
    predict(served, source, target, settings=settings)
    assert "café" in target.read_text()


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.parquet", "in.arrow"])
def test_table_without_rows_is_predicted_into_its_header(served, tmp_path, name):
    source = tmp_path / name
    table = pa.table({"n": pa.array([], pa.int64()), "left": [], "right": []})
    if name == "in.parquet":
        parquet.write_table(table, source)
    elif name == "in.arrow":
        with pa.ipc.new_stream(str(source), table.schema):
            pass
    else:
        source.write_text("n,left,right,,\n".replace(",", ",\t"[name == "in.tsv"]))
    header = "n,left,right,prediction,probability\n"
    headers = {"csv": header, "tsv": header.replace(",", "\t"), "jsonl": ""}
    for suffix, expected in headers.items():
        target = tmp_path / f"out.{suffix}"
        assert predict(served, source, target) == (0, 0)
        assert target.read_text() == expected


@pytest.mark.parametrize("name", ["out.csv.gz", "out.TSV.GZ", "out.jsonl.gz"])
def test_gzipped_file_is_written(served, tmp_path, name):
    source, target = tmp_path / "in.csv", tmp_path / name
    source.write_text("left,right\nlonger,x\n")
    assert predict(served, source, target) == (1, 0)
    text = gzip.decompress(target.read_bytes()).decode()
    assert text.count("longer") == 1
    assert "prediction" in text
    assert "second" in text
    # It is read back.
    assert predict(served, target, tmp_path / f"again-{name}") == (1, 0)


@pytest.mark.parametrize(
    ("name", "text", "target", "row", "got"),
    [
        ("in.jsonl", '{"left": "a"}\n', "out.jsonl", 1, "no column right; the"),
        ("in.jsonl", '{"left": "a"\n', "out.jsonl", 1, "not JSON"),
        ("in.jsonl", '["a"]\n', "out.jsonl", 1, "not a JSON object"),
        ("in.jsonl", '{"n": "\\ud800"}', "out.jsonl", 1, "column n is not Unicode"),
        ("in.jsonl", f'{{"n": {"1" * 5000}}}', "out.jsonl", 1, "not JSON: Exceeds"),
        ("in.jsonl", '{"n": "\udcff"}', "out.jsonl", 1, "column 8: the byte 0xff"),
        ("in.tsv", "left\tright\na\n", "out.tsv", 2, "1 field, the header has 2"),
        ("in.tsv", "left\tn\n", "out.csv", 1, "no column right; the model takes"),
        (
            *("in.jsonl", '{"left": "a\\tb", "right": "."}', "out.tsv", 1),
            "TSV cannot hold a value .* write csv or jsonl",
        ),
        (
            "in.jsonl",
            '{"left": "a", "right": "."}\n{"left": "a", "right": ".", "n": 1}\n',
            *("out.tsv", 2, "column n is not one of"),
        ),
    ],
)
def test_bad_row_is_refused_and_nothing_is_written(
    served, tmp_path, name, text, target, row, got
):
    source = tmp_path / name
    source.write_text(text, errors="surrogateescape")
    with refused("E-rows-refused", setting=f"{source}:{row}", got=re.compile(got)):
        predict(served, source, tmp_path / target)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("source", "target", "name", "setting"),
    [
        ("in.txt", "out.tsv", "E-format-unknown", "source"),
        ("in.tfrecord", "out.tsv", "E-format-unknown", "source"),
        ("none.tsv", "out.tsv", "E-data-not-found", "source"),
        ("in.tsv", "out.txt", "E-format-unknown", "destination"),
        ("gs://bucket/in.tsv", "out.tsv", "E-local-path-required", "source"),
        ("in.tsv", "gs://bucket/out.tsv", "E-local-path-required", "destination"),
    ],
)
def test_other_files_are_refused(
    served, tmp_path, monkeypatch, source, target, name, setting
):
    monkeypatch.chdir(tmp_path)
    for file in ("in.tsv", "in.txt", "in.tfrecord"):
        Path(file).write_text("left\tright\nlonger\tx\n")
    got = source if setting == "source" else target
    with refused(name, setting=setting, got=got):
        predict(served, source, target)
    assert len([*tmp_path.iterdir()]) == 3


def test_two_predictions_into_one_file_do_not_mix(served, tmp_path, monkeypatch):
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    rows = "".join(f"{i}\ta\tb\n" for i in range(400))
    source.write_text(f"n\tleft\tright\n{rows}")
    predict_batch = Predictor.predict_batch
    incomplete = []

    def start_another(predictor, *arguments):
        incomplete.extend(tmp_path.glob(".incomplete-*"))
        monkeypatch.setattr(Predictor, "predict_batch", predict_batch)
        predict(served, source, target)
        assert len(target.read_text().splitlines()) == 401
        return predict_batch(predictor, *arguments)

    monkeypatch.setattr(Predictor, "predict_batch", start_another)
    assert predict(served, source, target) == (400, 0)
    assert len(incomplete) == 1
    assert len(target.read_text().splitlines()) == 401
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tsv", "out.tsv"]


@pytest.mark.parametrize(
    "target",
    [
        *("in.tsv/out.tsv", "/dev/null/out.tsv", "/proc/out.tsv", "directory.tsv"),
        *("x" * 300 + ".tsv", "x" * 300 + "/out.tsv"),
    ],
)
def test_output_that_cannot_be_written_is_refused_before_the_model_is_loaded(
    served, tmp_path, monkeypatch, target
):
    source = tmp_path / "in.tsv"
    source.write_text("left\tright\na\tb\n")
    (tmp_path / "directory.tsv").mkdir()
    monkeypatch.setattr(SavedModelPredictor, "__init__", None)
    with refused("E-storage-failed"):
        predict(served, source, tmp_path / target)


def test_link_is_kept_and_results_are_kept_if_they_cannot_be_moved(
    served, tmp_path, monkeypatch
):
    source, link = tmp_path / "in.tsv", tmp_path / "link.tsv"
    source.write_text("left\tright\na\tb\n")
    link.symlink_to(tmp_path / "out.tsv")
    predict(served, source, link)
    assert link.is_symlink()
    assert "first" in (tmp_path / "out.tsv").read_text()
    target = tmp_path / "directory.tsv"
    predict_batch = Predictor.predict_batch

    def predict_beside_another(*arguments):
        target.mkdir()
        return predict_batch(*arguments)

    monkeypatch.setattr(Predictor, "predict_batch", predict_beside_another)
    with refused("E-storage-failed", setting="destination") as caught:
        predict(served, source, target)
    kept = caught.value.advice.removeprefix("take the predictions from ")
    assert "first" in Path(kept).read_text()


def test_model_of_a_bucket_predicts_a_local_file(served, tmp_path, bucket):
    served_versions.push(str(served / "9"), f"{bucket}/serving", "9")
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    source.write_text("left\tright\nlonger\tx\n")
    assert predict(f"{bucket}/serving", source, target) == (1, 0)
    assert target.read_text().splitlines()[1] == "longer\tx\tsecond\t0.9"
