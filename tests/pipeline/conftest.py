"""Output directories without the runs that take half a minute each."""

import hashlib
import json
import os
import time

import pytest

from tests.pipeline.past_runs import PastRuns


@pytest.fixture
def past(tmp_path):
    return PastRuns(tmp_path / "output")


@pytest.fixture
def push(past):
    """Writes a version as `served_versions.push` does."""

    def push(version):
        directory = past.paths.pushed / str(version)
        directory.mkdir(parents=True)
        graph = f"graph of {version}".encode()
        (directory / "saved_model.pb").write_bytes(graph)
        sha256 = hashlib.sha256(graph).hexdigest()
        files = {"saved_model.pb": {"size": len(graph), "sha256": sha256}}
        (directory / "manifest.json").write_text(json.dumps({"files": files}))
        return directory

    return push


@pytest.fixture
def zone():
    """Sets the time zone of this process, as a user's `TZ` does."""
    previous = os.environ.get("TZ")

    def set_zone(name):
        if name is None:
            os.environ.pop("TZ", None)
        else:
            os.environ["TZ"] = name
        time.tzset()

    yield set_zone
    set_zone(previous)
