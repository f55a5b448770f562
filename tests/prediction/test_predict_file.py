"""Predictions of one file into one file."""

import codecs
import gzip
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from contracts.versions import served_versions
from prediction.predict_file import predict_file
from prediction.predictor import Predictor

pytestmark = pytest.mark.slow


def test_table_of_a_regression_gets_one_more_column(scorer, tmp_path):
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    source.write_text("n\tsentence\n1\tthe cat\n")
    assert predict_file(scorer, str(source), str(target)) == (1, 0)
    assert target.read_text() == "n\tsentence\tprediction\n1\tthe cat\t0.7\n"


def test_table_keeps_its_columns_and_order_and_gets_two_more_columns(served, tmp_path):
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    rows = [f'{i}\t"quoted {i}\t{"x" * (i % 30 + 1)}' for i in range(600)]
    source.write_text("\n".join(["n\tleft\tright", *rows]) + "\n")
    assert predict_file(str(served), str(source), str(target)) == (600, 0)
    lines = target.read_text().splitlines()
    assert lines[0] == "n\tleft\tright\tprediction\tprobability"
    assert [line.rsplit("\t", 2)[0] for line in lines[1:]] == rows
    assert lines[3] == f"{rows[2]}\tsecond\t0.9"


def test_spreadsheet_in_europe_is_predicted_into_quoted_csv(served, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    text = 'left;right;n\r\n"a, ""b""";c;1\r\nd;"two\nlines";2\r\n'
    source.write_bytes(codecs.BOM_UTF8 + text.encode())
    assert predict_file(str(served), str(source), str(target)) == (2, 0)
    assert target.read_bytes().decode() == (
        'left,right,n,prediction,probability\n"a, ""b""",c,1,second,0.9\n'
        'd,"two\nlines",2,first,0.9\n'
    )


@pytest.mark.parametrize("name", ["in.parquet", "in.arrow", "in.csv.gz", "in.jsonl"])
def test_file_of_any_format_is_predicted_in_order(served, tmp_path, name):
    rows = [{"left": f"row {n}", "right": "x"} for n in range(300)]
    source, target = tmp_path / name, tmp_path / "out.csv"
    frame = pd.DataFrame(rows)
    if name.endswith(".parquet"):
        frame.to_parquet(source)
    elif name.endswith(".jsonl"):
        frame.to_json(source, orient="records", lines=True)
    elif name.endswith(".csv.gz"):
        frame.to_csv(source, index=False)
    else:
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_stream(str(source), table.schema) as writer:
            writer.write_table(table)
    assert predict_file(str(served), str(source), str(target)) == (300, 0)
    assert list(pd.read_csv(target)["left"]) == [row["left"] for row in rows]


def test_labels_are_joined_in_tables_and_a_list_in_json_lines(labeller, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(
        '{"sentence": "ab", "tags": ["x"]}\n{"sentence": "c", "tags": []}'
    )
    for name in ("out.tsv", "out.jsonl"):
        assert predict_file(labeller, str(source), str(tmp_path / name)) == (2, 0)
    assert (tmp_path / "out.tsv").read_text().splitlines() == [
        "sentence\ttags\tprediction\tprobability_with a\tprobability_with b",
        "ab\t['x']\twith a|with b\t0.9\t0.9",
        "c\t[]\t\t0.2\t0.2",
    ]
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["prediction"] for line in lines] == [
        ["with a", "with b"],
        [],
    ]
    assert json.loads(lines[1])["probability_with b"] == 0.2
    source.with_name("none.csv").write_text("sentence\n")
    target = tmp_path / "none-out.csv"
    assert predict_file(labeller, str(tmp_path / "none.csv"), str(target)) == (0, 0)
    header = "sentence,prediction,probability_with a,probability_with b\n"
    assert target.read_text() == header


@pytest.mark.parametrize("target", ["out.csv", "out.tsv", "out.jsonl"])
def test_improbable_class_is_empty_and_counted(served, tmp_path, target):
    source, target = tmp_path / "in.csv", tmp_path / target
    source.write_text("left,right\nsame,same\nlonger,x\n")
    counts = predict_file(str(served), str(source), str(target), min_probability=0.61)
    assert counts == (2, 1)
    lines = target.read_text().splitlines()
    if target.suffix == ".jsonl":
        assert [json.loads(line)["prediction"] for line in lines] == [None, "second"]
        assert json.loads(lines[0])["probability"] == 0.6
    else:
        comma = "," if target.suffix == ".csv" else "\t"
        assert [line.split(comma)[2:] for line in lines[1:]] == [
            ["", "0.6"],
            ["second", "0.9"],
        ]


def test_encoding_of_the_file_is_set(served, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes("left,right\ncafé,x\n".encode("cp1252"))
    with pytest.raises(UsageError, match=r"in\.csv:2: column 4.*data\.encoding=cp1252"):
        predict_file(str(served), str(source), str(target))
    settings = DataConfig(encoding="cp1252")
    predict_file(str(served), str(source), str(target), settings)
    assert "café" in target.read_text()


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.parquet", "in.arrow"])
@pytest.mark.parametrize("target", ["out.csv", "out.tsv", "out.jsonl"])
def test_table_without_rows_is_predicted_into_its_header(
    served, tmp_path, name, target
):
    source, target = tmp_path / name, tmp_path / target
    table = pa.table({"n": pa.array([], pa.int64()), "left": [], "right": []})
    if name == "in.parquet":
        parquet.write_table(table, source)
    elif name == "in.arrow":
        with pa.ipc.new_stream(str(source), table.schema):
            pass
    else:
        source.write_text("n,left,right,,\n".replace(",", ",\t"[name == "in.tsv"]))
    assert predict_file(str(served), str(source), str(target)) == (0, 0)
    header = "n,left,right,prediction,probability\n"
    if target.suffix == ".tsv":
        header = header.replace(",", "\t")
    assert target.read_text() == ("" if target.suffix == ".jsonl" else header)


def test_header_of_a_score_has_no_probability(scorer, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("sentence\n")
    assert predict_file(scorer, str(source), str(target)) == (0, 0)
    assert target.read_text() == "sentence,prediction\n"


@pytest.mark.parametrize("name", ["out.csv.gz", "out.TSV.GZ", "out.jsonl.gz"])
def test_gzipped_file_is_written(served, tmp_path, name):
    source, target = tmp_path / "in.csv", tmp_path / name
    source.write_text("left,right\nlonger,x\n")
    assert predict_file(str(served), str(source), str(target)) == (1, 0)
    text = gzip.decompress(target.read_bytes()).decode()
    assert text.count("longer") == 1
    assert "prediction" in text
    assert "second" in text
    # It is read back.
    assert predict_file(str(served), str(target), str(tmp_path / f"again-{name}")) == (
        1,
        0,
    )


def test_json_lines_keep_their_fields(served, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    row = {"id": "é", "left": "a\tb\nc", "right": "."}
    source.write_text(json.dumps(row) + "\n")
    predict_file(str(served), str(source), str(target))
    expected = {**row, "prediction": "second", "probability": 0.9}
    assert json.loads(target.read_text()) == expected


def test_columns_of_the_input_named_as_ours_are_kept_under_another_name(
    served, tmp_path
):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(
        "prediction,left,input_probability,right,probability\nx,ab,y,.,z\n"
    )
    predict_file(str(served), str(source), str(target))
    assert target.read_text().splitlines() == [
        "input_prediction,left,input_probability,right,input_input_probability,"
        "prediction,probability",
        "x,ab,y,.,z,second,0.9",
    ]


@pytest.mark.parametrize(
    ("name", "text", "target", "message"),
    [
        ("in.jsonl", '{"left": "a"}\n', "out.jsonl", r":1: no column right; the"),
        ("in.jsonl", '{"left": "a"\n', "out.jsonl", r":1: not JSON"),
        ("in.jsonl", '["a"]\n', "out.jsonl", r":1: not a JSON object"),
        ("in.jsonl", '{"n": "\\ud800"}', "out.jsonl", r":1: column n is not Unicode"),
        ("in.jsonl", f'{{"n": {"1" * 5000}}}', "out.jsonl", r":1: not JSON: Exceeds"),
        (
            "in.jsonl",
            '{"n": "\udcff"}',
            "out.jsonl",
            r":1: column 8: the byte 0xff is not utf-8",
        ),
        ("in.tsv", "left\tright\na\n", "out.tsv", r":2: 1 field, the header has 2"),
        ("in.txt", "left,right\n", "out.tsv", r"in\.txt: one output file needs \.csv"),
        ("in.tsv", "left\tn\n", "out.csv", r":1: no column right; the model takes"),
        (
            "in.tsv",
            "left\tright\na\tb\n",
            "out.txt",
            r"out\.txt: allowed are \.csv, \.tsv and",
        ),
        (
            "in.jsonl",
            '{"left": "a\\tb", "right": "."}',
            "out.tsv",
            r":1: TSV cannot hold a value .* write csv or jsonl",
        ),
    ],
)
def test_bad_file_is_refused_with_its_line_and_nothing_is_written(
    served, tmp_path, name, text, target, message
):
    (tmp_path / name).write_text(text, errors="surrogateescape")
    with pytest.raises(UsageError, match=message):
        predict_file(str(served), str(tmp_path / name), str(tmp_path / target))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_row_with_a_column_that_the_first_row_lacks_is_refused_as_tsv(served, tmp_path):
    source = tmp_path / "in.jsonl"
    row = {"left": "a", "right": "."}
    source.write_text(f"{json.dumps(row)}\n{json.dumps({**row, 'n': 1})}\n")
    with pytest.raises(UsageError, match=r"in\.jsonl:2: column n is not one of"):
        predict_file(str(served), str(source), str(tmp_path / "out.tsv"))
    assert predict_file(str(served), str(source), str(tmp_path / "out.jsonl")) == (2, 0)


def test_two_predictions_into_one_file_do_not_mix(served, tmp_path, monkeypatch):
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    rows = "".join(f"{i}\ta\tb\n" for i in range(400))
    source.write_text(f"n\tleft\tright\n{rows}")
    predict_batch = Predictor.predict_batch
    incomplete = []

    def start_another(predictor, *arguments):
        incomplete.extend(tmp_path.glob(".incomplete-*"))
        monkeypatch.setattr(Predictor, "predict_batch", predict_batch)
        predict_file(str(served), str(source), str(target))
        assert len(target.read_text().splitlines()) == 401
        return predict_batch(predictor, *arguments)

    monkeypatch.setattr(Predictor, "predict_batch", start_another)
    assert predict_file(str(served), str(source), str(target)) == (400, 0)
    assert len(incomplete) == 1
    assert len(target.read_text().splitlines()) == 401
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tsv", "out.tsv"]


@pytest.mark.parametrize(
    "target",
    [
        "in.tsv/out.tsv",
        "/dev/null/out.tsv",
        "/proc/out.tsv",
        "x" * 300 + ".tsv",
        "x" * 300 + "/out.tsv",
        "directory.tsv",
    ],
)
def test_output_that_cannot_be_written_is_refused_before_the_model_is_loaded(
    served, tmp_path, monkeypatch, target
):
    source = tmp_path / "in.tsv"
    source.write_text("left\tright\na\tb\n")
    (tmp_path / "directory.tsv").mkdir()
    monkeypatch.setattr("prediction.predict_file.Predictor", None)
    message = (
        r"--output .* (cannot be written: .+; name another|is a directory; name a)"
    )
    with pytest.raises(UsageError, match=message):
        predict_file(str(served), str(source), str(tmp_path / target))


def test_link_is_kept_and_results_are_kept_if_they_cannot_be_moved(
    served, tmp_path, monkeypatch
):
    source, link = tmp_path / "in.tsv", tmp_path / "link.tsv"
    source.write_text("left\tright\na\tb\n")
    link.symlink_to(tmp_path / "out.tsv")
    predict_file(str(served), str(source), str(link))
    assert link.is_symlink()
    assert "first" in (tmp_path / "out.tsv").read_text()
    target = tmp_path / "directory.tsv"
    predict_batch = Predictor.predict_batch

    def predict_beside_another(*arguments):
        target.mkdir()
        return predict_batch(*arguments)

    monkeypatch.setattr(Predictor, "predict_batch", predict_beside_another)
    with pytest.raises(UsageError, match=r"predictions are in .*incomplete") as error:
        predict_file(str(served), str(source), str(target))
    kept = Path(error.value.message.partition("are in ")[2])
    assert "first" in kept.read_text()


def test_model_of_a_bucket_predicts_a_local_file(served, tmp_path, bucket):
    served_versions.push(str(served / "9"), f"{bucket}/serving", "9")
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    source.write_text("left\tright\nlonger\tx\n")
    assert predict_file(f"{bucket}/serving", str(source), str(target)) == (1, 0)
    assert target.read_text().splitlines()[1] == "longer\tx\tsecond\t0.9"


@pytest.mark.parametrize("option", ["--input", "--output"])
def test_file_in_a_bucket_is_refused(served, tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.tsv").write_text("left\tright\nlonger\tx\n")
    paths = {"--input": "in.tsv", "--output": "out.tsv"}
    paths[option] = f"gs://bucket/{paths[option]}"
    with pytest.raises(UsageError, match=f"{option} gs://bucket/.*a local --input"):
        predict_file(str(served), *paths.values())
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]
