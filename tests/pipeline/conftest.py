"""Output directories without the runs that take half a minute each."""

import os
import time

import pytest

from tests.pipeline.past_runs import PastRuns


@pytest.fixture
def past(tmp_path):
    return PastRuns(tmp_path / "output")


@pytest.fixture
def push(past):
    return past.push


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
