"""A Spark cluster of a master and two workers computes what the default runner does.

Also if it loses a worker. Spark repeats the tasks of its executors on the other one.
"""

import contextlib
from pathlib import Path

import psutil
import pytest

from benchmarks import beam_runners
from contracts.errors import UsageError
from tests.e2e.finished_run import beam_work
from tools.spark_cluster import SparkCluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.nightly,
    # Threads of Beam raise if the other end of their channel is killed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
_STARTED, _FINISHED = "Running task", "Finished task"  # in the log of an executor
# Finished tasks before the kill: none, half and nearly all of those of a tiny run,
# which are 76, 98 and 46.
MOMENTS = [
    *(("Transform", tasks) for tasks in (0, 36, 66)),
    *(("Evaluator", tasks) for tasks in (0, 48, 88)),
    *((beam_runners.PREDICTION, tasks) for tasks in (0, 20, 36)),
]


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    try:
        with SparkCluster(directory) as cluster:
            yield cluster
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def cluster(started):
    """The cluster, with two workers again if a test killed one."""
    started.start_workers()
    return started


def executor_logs(cluster):
    """Returns what the executors of each worker have logged, by the worker's index."""
    logs = dict.fromkeys(range(len(cluster.workers)), "")
    for index, worker in enumerate(cluster.workers):
        for executor in psutil.Process(worker.pid).children():
            with contextlib.suppress(psutil.Error, OSError):  # it starts or ends
                log = Path(executor.cwd(), "stderr")
                logs[index] += log.read_text(errors="replace")
    return logs


def busy_worker_killed(cluster, tasks):
    """Kills a worker at work, once so many tasks have finished."""

    def try_to_kill():
        logs = executor_logs(cluster)
        busy = [i for i, s in logs.items() if s.count(_STARTED) > s.count(_FINISHED)]
        if not busy or sum(s.count(_FINISHED) for s in logs.values()) < tasks:
            return None
        cluster.kill_worker(busy[0])
        return busy[0]

    return beam_work.killing(try_to_kill)


def test_cluster_of_two_workers_computes_the_same(finished, cluster):
    beam_work.check(finished, cluster.beam)


@pytest.mark.parametrize(("work", "tasks"), MOMENTS)
def test_killed_worker_loses_no_row(finished, cluster, work, tasks):
    with busy_worker_killed(cluster, tasks) as killed:
        beam_work.check(finished, cluster.beam, (work,))
    assert killed
