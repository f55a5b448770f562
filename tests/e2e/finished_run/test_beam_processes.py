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
_SECONDS = 1.5  # of CPU time, of 4 to 15 in all
BEAM = BeamConfig(runner="multi_processing", workers=2)


def test_processes_of_this_machine_compute_the_same(finished):
    beam_work.check(finished, BEAM, ("StatisticsGen", "Evaluator"))


def test_worker_that_is_killed_loses_no_row(finished):
    # Long before the transform graph is published: Transform's rename of it cannot be
    # repeated, so that it would fail.
    killed = worker_processes.kill_when(
        lambda: worker_processes.find()[0].cpu_times().user > _SECONDS
    )
    beam_work.check(finished, BEAM, ("Transform",))
    assert killed
