"""Runs commands."""

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from tests import tiny


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    """Runs a command on a user's own data, with a tiny encoder."""
    encoder = tiny.write_encoder(tmp_path / "encoder")
    monkeypatch.setenv("COLUMNS", "120")

    def invoke(*arguments):
        arguments = [*map(str, arguments), "--encoder", str(encoder)]
        return CliRunner().invoke(main, arguments)

    return invoke


@pytest.fixture
def invoke_past(past, monkeypatch):
    """Runs a command on the output directory of past runs; returns what it prints."""
    monkeypatch.setenv("COLUMNS", "80")

    def invoke(*arguments, exit_code=0):
        options = ["--output", str(past.paths.root)]
        result = CliRunner().invoke(main, [*map(str, arguments), *options])
        assert result.exit_code == exit_code, result.output
        return result.output

    return invoke
