"""The order of the test files, and fixtures that several of them share."""

import gc
import io
import logging
import os
import signal

import pytest

from modules import environment
from pipeline.config.paths import REPOSITORY
from pipeline.console import Console
from tests.browser import chromium, open_page  # noqa: F401 (fixtures)
from tests.compiled.fixtures import pods  # noqa: F401 (fixtures)
from tests.faults.memory import memory_limit  # noqa: F401 (fixtures)
from tests.mounts import mounts  # noqa: F401 (fixtures)
from tests.object_store.fixtures import bucket, object_store  # noqa: F401 (fixtures)

# Each collection would visit all that TFX imported: 4 % of the time of a training.
gc.set_threshold(50_000)
environment.set_up()
pytest.register_assert_rewrite("tests.e2e.released")
# Beam makes hundreds of argument parsers, and each searches the disk for translations.
os.environ.setdefault("LANGUAGE", "C")

# The longest files first: started last, one of them would leave the other worker idle.
LONGEST_FIRST = ("nightly", "e2e", "slow")
# Their files share a finished run and a process that has imported TFX, or servers of a
# model that takes seconds to load.
# The Flink clusters take most of an hour, so they run beside the others.
ONE_WORKER = (
    "tests/e2e/finished_run/test_flink_cluster.py",
    ("tests/e2e/finished_run/", "tests/e2e/test_own_data.py"),
    "tests/serving/",
)


def pytest_collection_modifyitems(items):
    items.sort(key=position)


def pytest_collection_finish():
    gc.freeze()


def position(item):
    """Returns the index of an item's first marker in `LONGEST_FIRST`."""
    for index, marker in enumerate(LONGEST_FIRST):
        if item.get_closest_marker(marker):
            return index
    return len(LONGEST_FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Has one worker run all tests of the first paths in `ONE_WORKER` that match."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            for paths in ONE_WORKER:
                if nodeid.startswith(paths):
                    return str(paths)
            return super()._split_scope(nodeid)

    return Scheduling(config, log)


@pytest.fixture(autouse=True)
def keep_log_level():
    """Undoes `set_up(quiet=True)`, so that no test depends on the one before it."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.fixture
def foreground():
    """Has a test and the processes that it starts receive Ctrl-C and SIGHUP.

    `nohup make test &` ignores both, and a process inherits ignored signals. It starts
    with the default of a signal that has a handler.
    """
    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGHUP: lambda *_: None,
    }
    previous = {n: signal.signal(n, handler) for n, handler in handlers.items()}
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.fixture
def console():
    """A console that writes to a string."""
    return Console(file=io.StringIO(), width=120)


@pytest.fixture
def install_version(tmp_path, monkeypatch):
    """Replaces the version in a library's metadata."""

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
    """Exports a model of a kind of task, once for all workers."""
    from tests.exported import export_once

    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # the workers share it
    return lambda kind: export_once(base / "exported", kind)


@pytest.fixture(scope="session")
def mrpc():
    """The directory of the real MRPC, which the project does not include."""
    directory = REPOSITORY.parent / "shared" / "data" / "mrpc"
    if not (directory / "train.tsv").is_file():
        pytest.skip(f"MRPC is not in {directory}; its licence forbids shipping it")
    return directory
