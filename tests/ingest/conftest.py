"""Preparing the Examples of a source."""

import pytest

from contracts.settings.data import DataConfig
from ingest import examples
from tests import records


@pytest.fixture
def prepare(tmp_path):
    """Prepares a source as `records`; returns the rows of each split, and the lines."""

    def prepare(source, task, name="records", **settings):
        lines, target = [], str(tmp_path / name)
        settings = DataConfig(**settings)
        counts = examples.prepare(str(source), target, task, lines.append, settings)
        return {s: records.read(f"{target}/{s}/*.gz") for s in counts}, lines

    return prepare


@pytest.fixture
def write(tmp_path):
    """Writes splits as files of the directory `data`, which it returns."""

    def write(suffix, **splits):
        (tmp_path / "data").mkdir(exist_ok=True)
        for name, content in splits.items():
            content = content.encode() if isinstance(content, str) else content
            (tmp_path / "data" / f"{name}.{suffix}").write_bytes(content)
        return tmp_path / "data"

    return write
