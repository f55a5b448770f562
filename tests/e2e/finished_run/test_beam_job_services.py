"""Beam's job services and clusters compute what the default runner does."""

import shutil
import socket
import subprocess
import sys
import time

import pytest

from benchmarks import beam_runners
from contracts.errors import UsageError
from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import REPOSITORY
from tests.e2e.finished_run import beam_work
from tools.local_cluster import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
_SECONDS = 120


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
    jobs, pool = free_ports("localhost", 2)
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


def local_engine(runner):
    """Settings of an engine of two slots in the job server; skips without one."""
    beam = BeamConfig(runner=runner, workers=2)
    try:
        beam_arguments(beam)
    except UsageError as error:
        pytest.skip(str(error))
    return beam


# Together they do all of Beam's work, as each engine does in the nightly cluster tests.
def test_job_service_with_external_workers_computes_the_same(finished, portable):
    beam_work.check(finished, portable, ("StatisticsGen", "Evaluator"))


@pytest.mark.parametrize("runner", ["flink", "spark"])
def test_engine_of_two_slots_computes_the_same(finished, runner):
    work = ("Transform", beam_runners.PREDICTION)
    beam_work.check(finished, local_engine(runner), work)
