"""The command `predict` of the runtime."""

import re
import sys

import pytest
from click.testing import CliRunner

from bert_runtime.cli.predict import SETTINGS, predict_command
from contracts.settings.data import DataConfig
from tests.refusals import check


def invoke(*arguments):
    return CliRunner().invoke(predict_command, [str(value) for value in arguments])


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ("longer", "--pair", "a\tb", "c"),
            ["text\ttext\tclass\tprobability", "a b\tc\tfirst\t0.900"],
        ),
        (
            ("longer", "--pair", "a", "b", "--min-probability", "0.95"),
            [
                "text\ttext\tclass\tprobability",
                "a\tb\t\t0.900",
                "1 prediction (1 of 1 without a class: probability below 0.95)",
            ],
        ),
        (
            ("length", "--text", "cat", "--text", "a"),
            ["text\tscore", "cat\t0.300", "a\t0.100"],
        ),
        (
            ("letters", "--text", "ab"),
            ["text\tlabels", "ab\twith a (0.900), with b (0.900)"],
        ),
    ],
)
def test_texts_are_predicted_in_columns(arguments, lines):
    result = invoke("--model", *arguments)
    assert result.output.splitlines() == lines


def test_file_is_read_as_the_options_say(tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_bytes("1|'café|au lait'\n".encode("cp1252"))
    arguments = ("--model", "length", "--input", source, "--output", target)
    reading = {
        "format": "csv",
        "encoding": "cp1252",
        "delimiter": "pipe",
        "quote": "'",
        "quoting": "double",
        "columns": "id,sentence",
    }
    options = [part for name, value in reading.items() for part in (f"--{name}", value)]
    result = invoke(*arguments, *options)
    assert result.output == f"1 prediction written to {target}\n"
    expected = '{"id": "1", "sentence": "café|au lait", "prediction": 1.2}\n'
    assert target.read_text() == expected
    assert {name.removeprefix("data.") for name in SETTINGS} == {*reading}
    assert {*reading} < {*DataConfig.model_fields}


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ([], {"name": "E-options-conflict"}),
        (["--text", "a", "--pair", "a", "b"], {"name": "E-options-conflict"}),
        (["--input", "in.csv"], {"name": "E-options-conflict"}),
        (["--text", " "], {"name": "E-text-refused", "setting": "text"}),
        (["--pair", "a", "b"], {"name": "E-options-conflict", "setting": "pair"}),
        (
            ["--text", "a", "--min-probability", "0.5"],
            {"name": "E-options-conflict", "setting": "min_probability"},
        ),
        (
            ["--input", "in.csv", "--output", "out.csv", "--encoding", "none"],
            {"name": "E-settings-refused", "setting": "data.encoding"},
        ),
        (
            ["--input", "in.csv", "--output", "out.csv", "--delimiter", "ab"],
            {"name": "E-settings-refused", "setting": "data.delimiter"},
        ),
        (
            ["--input", "gs://bucket/in.csv", "--output", "out.csv"],
            {"name": "E-local-path-required", "advice": None},
        ),
        (
            ["--input", "in.csv", "--output", "directory"],
            {"name": "E-format-unknown", "setting": "destination"},
        ),
        (
            ["--input", "in.csv", "--output", "out.csv"],
            {"name": "E-rows-refused", "advice": "correct the row, or remove it"},
        ),
        (
            ["--input", "in.tfrecord", "--output", "out.csv"],
            {
                "name": "E-format-unknown",
                "advice": "set the format of another name with `input_format`",
            },
        ),
    ],
)
def test_wrong_request_is_refused(tmp_path, monkeypatch, arguments, fields):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("text\na\n")
    (tmp_path / "in.tfrecord").touch()
    result = invoke("--model", "length", *arguments)
    check(result.exception, **fields)
    assert not (tmp_path / "out.csv").exists()


def test_parquet_without_pyarrow_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    source = tmp_path / "in.parquet"
    source.touch()
    arguments = ("--input", source, "--output", tmp_path / "out.csv")
    result = invoke("--model", "length", *arguments)
    got = re.compile("^it is Parquet, which needs pyarrow$")
    check(result.exception, name="E-format-unknown", setting=str(source), got=got)
