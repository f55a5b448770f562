"""Beam's worker processes of this machine compute what the default runner does."""

import pytest

from pipeline.config.beam import BeamConfig
from tests import worker_processes
from tests.e2e.finished_run import beam_work

pytestmark = [
    pytest.mark.e2e,
    # The thread that waits for a worker raises if there is none.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
BEAM = BeamConfig(runner="multi_processing", workers=2)


def test_processes_of_this_machine_compute_the_same(finished):
    beam_work.check(finished, BEAM, ("StatisticsGen", "Evaluator"))


def test_worker_that_is_killed_loses_no_row(finished):
    killed = worker_processes.kill_when(lambda: True, after=8)
    beam_work.check(finished, BEAM, ("Transform",))
    assert killed
