"""The command `bert-runtime`: its help, its version and the wording of errors."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from bert_runtime.cli.main import main
from pipeline.config.paths import REPOSITORY

IMPORTED = """
import sys
from click.testing import CliRunner
from bert_runtime.cli.main import main

assert CliRunner().invoke(main, sys.argv[1:]).exit_code == 0
print(*sys.modules)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "-h"], ["--version"]])
def test_help_and_version_import_no_model_and_no_server(arguments):
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    slow = {"fastapi", "onnxruntime", "pandas", "pyarrow", "tokenizers", "uvicorn"}
    assert not slow & set(finished.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--none"], "--none: no such option; see "),
        (["none"], "No such command 'none'"),
        (["serve"], "--model: missing; see "),
        (["serve", "--model", "a", "--grpc-port", "1"], "--grpc-port: no such option"),
        (["serve", "--model", "a", "--port", "x"], "--port: 'x' is not a valid"),
        (["serve", "--model", "gs://a/b"], "--model: gs://a/b; allowed: a directory"),
        (["serve", "--model", "none"], "--model: none: no such directory; give "),
        (
            ["predict", "--model", "a", "--text", "b", "--encoding", "none"],
            "--encoding: 'none'; allowed: Python's encodings",
        ),
        (["serve", "--model", "a", "--label", "b"], "--label: b; allowed: LABEL="),
        (["serve", "--model", "a", "--tls-key", "b"], "--tls-key: b; add --tls-cert"),
    ],
)
def test_bad_usage_is_one_line(arguments, message):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {message}")


def test_setting_of_a_file_is_shown_as_its_option(tmp_path):
    source = tmp_path / "in.csv"
    source.write_bytes("text\ncafé\n".encode("cp1252"))
    files = ["--input", str(source), "--output", str(tmp_path / "out.csv")]
    arguments = ["predict", "--model", "length", *files]
    result = CliRunner().invoke(main, [*arguments, "--encoding", "none"])
    assert result.stderr.startswith("error: --encoding: 'none'; allowed: ")
    result = CliRunner().invoke(main, arguments)
    assert "set the encoding of the file, for example --encoding cp1252" in (
        result.stderr
    )


def test_text_that_the_terminal_cannot_show_is_escaped():
    finished = subprocess.run(
        [sys.executable, "-m", "bert_runtime.cli.main", "模"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 2
    assert r"'\u6a21'" in finished.stderr
