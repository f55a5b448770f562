"""Output directories without the runs that take half a minute each."""

import pytest

from tests.pipeline.past_runs import PastRuns


@pytest.fixture
def past(tmp_path):
    return PastRuns(tmp_path / "output")


@pytest.fixture
def push(past):
    return past.push
