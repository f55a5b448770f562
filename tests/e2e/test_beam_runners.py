"""Each Beam runner computes what the default one does."""

import shutil
import socket
import subprocess
import sys
import time

import pytest

from benchmarks import beam_runners
from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from pipeline.config.errors import UsageError
from pipeline.config.paths import REPOSITORY
from tests import worker_processes

pytestmark = [
    pytest.mark.e2e,
    # The thread that waits for a worker raises if there is none.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
WORKS = (*beam_runners.COMPONENTS, beam_runners.PREDICTION)
_SECONDS = 120


@pytest.fixture(scope="module")
def pipeline(restore):
    """The recipe and the id of a run by the default runner."""
    config = restore().config
    return config, beam_runners.latest_run_id(config)


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def wait_for(port):
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"no server listens at port {port}")


@pytest.fixture(scope="module")
def portable():
    """A job service and a worker pool, each in its own process."""
    program = shutil.which("prism", path=REPOSITORY / ".venv" / "bin")
    if program is None:
        pytest.skip("Prism is not in .venv/bin; `make prism` builds it and needs Go")
    jobs, pool = free_port(), free_port()
    commands = [
        [program, f"--job_port={jobs}", "--serve_http=false"],
        [
            *(sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main"),
            f"--service_port={pool}",
        ],
    ]
    # The pool starts its workers as `python`.
    environment = {"PATH": f"{REPOSITORY / '.venv' / 'bin'}:/usr/bin:/bin"}
    processes = [
        subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        for command in commands
    ]
    wait_for(jobs)
    wait_for(pool)
    yield BeamConfig(
        runner="portable",
        job_endpoint=f"localhost:{jobs}",
        environment="external",
        environment_config=f"localhost:{pool}",
    )
    for process in processes:
        process.terminate()
        process.wait(_SECONDS)


def cluster(runner):
    """Settings of a cluster of two slots on this machine; skips if there is none."""
    beam = BeamConfig(runner=runner, workers=2)
    try:
        beam_arguments(beam)
    except UsageError as error:
        pytest.skip(str(error))
    return beam


def check(pipeline, beam, works=WORKS):
    """Compares what a runner computes with the default runner's results."""
    measured = beam_runners.measure(*pipeline, [beam], works)
    assert [m.work for m in measured if m.runner == beam.runner] == [*works]
    assert [(m.work, m.differences) for m in measured if m.differences] == []


def test_processes_of_this_machine_compute_the_same(pipeline):
    beam = BeamConfig(runner="multi_processing", workers=2)
    check(pipeline, beam, ("StatisticsGen", "Evaluator"))


@pytest.mark.parametrize("work", ["Transform", beam_runners.PREDICTION])
def test_worker_that_is_killed_loses_no_row(pipeline, work):
    beam = BeamConfig(runner="multi_processing", workers=2)
    killed = worker_processes.kill_when(lambda: True, after=8)
    check(pipeline, beam, (work,))
    assert killed


def test_job_service_with_external_workers_computes_the_same(pipeline, portable):
    check(pipeline, portable)


@pytest.mark.parametrize("runner", ["flink", "spark"])
def test_cluster_of_two_slots_computes_the_same(pipeline, runner):
    check(pipeline, cluster(runner))
