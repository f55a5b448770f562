"""A Spark cluster of this machine: it starts, loses a worker, and leaves no process."""

import signal
import subprocess
import sys

import psutil
import pytest
import yaml

from contracts.errors import UsageError
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import REPOSITORY
from tools.local_cluster import find_libraries
from tools.spark_cluster import SparkCluster

pytestmark = pytest.mark.nightly
_SECONDS = 120


@pytest.fixture(scope="module", autouse=True)
def job_server():
    """Skips if Spark is not on this machine."""
    try:
        find_libraries("spark")
    except UsageError as error:
        pytest.skip(str(error))


def test_killed_worker_is_replaced_and_no_process_is_left(tmp_path):
    with SparkCluster(tmp_path) as cluster:
        first, second = cluster.workers
        cluster.kill_worker(0)
        assert first.returncode == -signal.SIGKILL
        cluster.start_workers()
        assert cluster.workers[0] is second
        processes = [cluster.master_process, *cluster.workers]
        assert len(processes) == 3
    assert not any(psutil.pid_exists(process.pid) for process in processes)


def test_workers_that_cannot_start_are_an_error_and_no_process_is_left(tmp_path):
    cluster = SparkCluster(tmp_path, executor_memory="much")
    with pytest.raises(RuntimeError, match=r"0 of 2 .* registered .*\.log"), cluster:
        pass
    assert cluster.master_process.returncode is not None


def test_command_prints_settings_and_ends_with_ctrl_c(tmp_path, foreground):
    command = [sys.executable, "-m", "tools.spark_cluster", tmp_path, "--workers", "1"]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if b"runner" in line:
            break
    children = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    lines += process.communicate(timeout=_SECONDS)[0].splitlines(keepends=True)
    assert process.returncode == 0
    settings = yaml.safe_load(b"".join(lines))
    assert BeamConfig(**settings["beam"]).master.startswith("spark://127.0.0.1:")
    assert len(children) == 2
    assert not any(psutil.pid_exists(child.pid) for child in children)
