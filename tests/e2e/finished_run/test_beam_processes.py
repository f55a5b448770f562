"""Beam's worker processes of this machine compute what the default runner does."""

import pytest

from pipeline.config.beam import BeamConfig
from tests.e2e.finished_run import beam_work

pytestmark = pytest.mark.e2e


@pytest.mark.nightly
@pytest.mark.parametrize(
    "component",
    ["StatisticsGen", "Transform", "Evaluator"],
)
def test_processes_of_this_machine_compute_the_same(finished, component):
    beam = BeamConfig(runner="multi_processing", workers=2)
    beam_work.check(finished, beam, (component,))
