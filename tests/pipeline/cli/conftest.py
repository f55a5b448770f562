"""The commands that look at a user's own data, with a tiny encoder."""

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from tests import tiny


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    encoder = tiny.write_encoder(tmp_path / "encoder")
    monkeypatch.setenv("COLUMNS", "120")

    def invoke(*arguments):
        arguments = [*map(str, arguments), "--encoder", str(encoder)]
        return CliRunner().invoke(main, arguments)

    return invoke
