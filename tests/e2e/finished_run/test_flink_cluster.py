"""A Flink cluster of two TaskManagers computes what the default runner does."""

import threading
import time

import pytest
from ml_metadata.proto import metadata_store_pb2 as mlmd

from benchmarks import beam_runners
from pipeline.config.paths import JOB_SERVERS
from pipeline.history.metadata import MetadataReader
from tests.e2e.finished_run import beam_work
from tools import flink_cluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.nightly,
    pytest.mark.skipif(
        not list(JOB_SERVERS.glob("*flink*.jar")),
        reason="no job server of Flink: `make job-servers` assembles it",
    ),
]
_SECONDS = 300
# Shares of a job's tasks that have finished.
MOMENTS = {"early": 0.0, "middle": 0.4, "late": 0.8}
WORK = ("Transform", "Evaluator", beam_runners.PREDICTION)


@pytest.fixture
def start(tmp_path):
    """Starts clusters, which end with the test."""
    clusters = []

    def start(**options):
        clusters.append(flink_cluster.FlinkCluster(tmp_path / "flink", **options))
        return clusters[-1].__enter__()

    yield start
    for cluster in clusters:
        cluster.__exit__()


def kill_task_manager(cluster):
    """Kills one with its workers; another one starts, as on Kubernetes."""
    lost = cluster.task_managers[0]
    flink_cluster.kill(lost.process)
    flink_cluster.kill(lost.pool)
    cluster.start_task_manager()


def kill_worker(cluster):
    flink_cluster.kill_workers(cluster.task_managers[0].pool)


def kill_job_manager(cluster):
    flink_cluster.kill(cluster.job_manager)
    cluster.start_job_manager()


def kill_at(cluster, moment, kill):
    """Kills once a share of the tasks of a running job has finished.

    Returns:
      A list that gets the share.
    """
    killed = []

    def wait():
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            for job in cluster.request("/jobs/overview")["jobs"]:
                tasks = job["tasks"]
                finished = tasks["finished"] / max(tasks["total"], 1)
                is_running = job["state"] == "RUNNING" and tasks["running"]
                if is_running and finished >= MOMENTS[moment]:
                    kill(cluster)
                    killed.append(finished)
                    return
            time.sleep(0.1)

    threading.Thread(target=wait, daemon=True).start()
    return killed


def leftovers(finished):
    return list(finished.paths.root.rglob("beam-temp-*"))


def published(finished):
    """Returns the published artifacts of all runs, and the predictions."""
    artifacts = MetadataReader(finished.paths.metadata).artifacts()
    live = {a.uri for a in artifacts if a.state == mlmd.Artifact.LIVE}
    return live | {*map(str, finished.paths.root.glob("predictions/flink-*"))}


def restarts(cluster):
    """Returns how often Flink restarted tasks, over all jobs."""
    log = (cluster.directory / "job-manager.log").read_text()
    return log.count("will be restarted to recover")


def test_cluster_of_two_task_managers_computes_the_same(finished, start):
    beam_work.check(finished, start().beam)
    assert leftovers(finished) == []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("kill", [kill_task_manager, kill_worker])
def test_lost_worker_loses_no_row(finished, start, kill, work, moment):
    cluster = start()
    killed = kill_at(cluster, moment, kill)
    beam_work.check(finished, cluster.beam, (work,))
    assert killed
    assert leftovers(finished) == []
    print(f"{kill.__name__} {work} {moment} {killed} restarts {restarts(cluster)}")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("work", WORK)
def test_lost_job_manager_with_high_availability_loses_no_row(
    finished, start, work, moment
):
    cluster = start(is_highly_available=True)
    killed = kill_at(cluster, moment, kill_job_manager)
    beam_work.check(finished, cluster.beam, (work,))
    assert killed
    assert leftovers(finished) == []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("work", WORK)
def test_lost_job_manager_without_high_availability_publishes_nothing(
    finished, start, work, moment
):
    cluster = start()
    killed = kill_at(cluster, moment, kill_job_manager)
    before = published(finished)
    started = time.monotonic()
    with pytest.raises(RuntimeError) as failed:
        beam_work.check(finished, cluster.beam, (work,))
    print(f"{work} {moment} {killed} {time.monotonic() - started:.0f} s {failed.value}")
    assert killed
    assert leftovers(finished) == []
    assert published(finished) == before
    cluster.wait_until_ready()
    beam_work.check(finished, cluster.beam, (work,))
