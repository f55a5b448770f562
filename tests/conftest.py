"""Fixtures that several tests share."""

import io
import os

import pytest
from rich.console import Console

from modules import environment
from pipeline.config.paths import REPOSITORY

environment.set_up()


def pytest_collection_modifyitems(items):
    """Puts whole pipelines first: started last, they would leave one worker idle."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


@pytest.fixture
def console():
    """A console that keeps what it is told."""
    return Console(file=io.StringIO(), width=120)


@pytest.fixture
def install_version(tmp_path, monkeypatch):
    """Makes a library's metadata tell another version."""

    def install_version(name, version):
        folder = f"{name.replace('-', '_')}-{version}.dist-info"
        directory = tmp_path / "site" / folder
        directory.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (directory / "METADATA").write_text(metadata)
        monkeypatch.syspath_prepend(directory.parent)

    return install_version


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    """Exports a model of a kind of task; once for all processes, as it takes long."""
    from tests.exported import export_once

    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # which the processes share
    return lambda kind: export_once(base / "exported", kind)


@pytest.fixture(scope="session")
def mrpc():
    """The directory of real MRPC, which is no part of this project."""
    directory = REPOSITORY.parent / "shared" / "data" / "mrpc"
    if not (directory / "train.tsv").is_file():
        pytest.skip(f"MRPC is not in {directory}, and its licence keeps it out of here")
    return directory
