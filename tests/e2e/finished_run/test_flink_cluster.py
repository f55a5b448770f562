"""A Flink cluster of two TaskManagers computes what the default runner does."""

import time

import pytest
from ml_metadata.proto import metadata_store_pb2 as mlmd

from benchmarks import beam_runners
from contracts.errors import UsageError
from report.run_metadata import MetadataReader
from tests.e2e.finished_run import beam_work
from tools import flink_cluster

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
# Shares of a job's tasks that have finished.
MOMENTS = {"early": 0.0, "middle": 0.4, "late": 0.8}
WORK = ("Transform", "Evaluator", beam_runners.PREDICTION)


def run_cluster(directory, **options):
    try:
        with flink_cluster.FlinkCluster(directory, **options) as cluster:
            yield cluster
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def started(request, tmp_path_factory):
    """A cluster of the last parameter: two at once would fill the memory."""
    directory = tmp_path_factory.mktemp("flink")
    yield from run_cluster(directory, is_highly_available=request.param)


@pytest.fixture
def cluster(started):
    """A cluster of two TaskManagers, whatever the last test killed."""
    started.wait_until_ready()
    return started


def of_cluster(name, *, is_highly_available):
    return pytest.mark.parametrize(
        "started", [is_highly_available], indirect=True, ids=[name]
    )


SESSION = of_cluster("session", is_highly_available=False)
# Its JobManager keeps the state of jobs on disk.
AVAILABLE = of_cluster("available", is_highly_available=True)


def kill_task_manager(cluster):
    """Kills one with its workers; another one starts, as on Kubernetes."""
    lost = cluster.task_managers.pop(0)
    flink_cluster.kill(lost.process)
    flink_cluster.kill(lost.pool)
    cluster.start_task_manager()
    return True


def kill_worker(cluster):
    return flink_cluster.kill_workers(cluster.task_managers[0].pool)


def kill_job_manager(cluster):
    flink_cluster.kill(cluster.job_manager)
    cluster.start_job_manager()
    return True


def killed_at(cluster, moment, kill):
    """Kills once a share of the tasks of a running job has finished."""

    def try_to_kill():
        for job in cluster.request("/jobs/overview")["jobs"]:
            tasks = job["tasks"]
            finished = tasks["finished"] / max(tasks["total"], 1)
            is_running = job["state"] == "RUNNING" and tasks["running"]
            is_time = is_running and finished >= MOMENTS[moment]
            if is_time and kill(cluster):  # early, there may be no worker
                return kill
        return None

    return beam_work.killing(try_to_kill)


def published(finished):
    """Returns the published artifacts of all runs, and the predictions."""
    artifacts = MetadataReader.of_file(finished.paths.metadata).artifacts()
    live = {a.uri for a in artifacts if a.state == mlmd.Artifact.LIVE}
    # Workers that lost their job may still write to an incomplete directory.
    predictions = finished.paths.root.glob("predictions/flink-*[0-9]")
    return live | {*map(str, predictions)}


def count_restarts(cluster):
    """Returns how often Flink restarted tasks, over all jobs."""
    log = (cluster.directory / "job-manager.log").read_text()
    return log.count("will be restarted to recover")


@SESSION
def test_cluster_of_two_task_managers_computes_the_same(finished, cluster):
    beam_work.check(finished, cluster.beam)


@SESSION
def test_rows_of_one_file_are_predicted_by_all_task_managers(finished, cluster):
    beam_work.check(finished, cluster.beam, (beam_runners.PREDICTION,))
    jobs = cluster.request("/jobs/overview")["jobs"]
    job = max(jobs, key=lambda job: job["start-time"])["jid"]
    vertices = cluster.request(f"/jobs/{job}")["vertices"]
    (predict,) = (v["id"] for v in vertices if "Predict" in v["name"])
    subtasks = cluster.request(f"/jobs/{job}/vertices/{predict}")["subtasks"]
    read = [subtask["metrics"]["read-records"] for subtask in subtasks]
    assert len(read) == 2
    assert max(read) - min(read) <= 1


def check_after(kill, finished, cluster, work, moment):
    """Checks the results after a process was killed.

    Transform publishes its graph by renaming a folder, which tft cannot repeat. So it
    may fail, but publishes nothing then, and succeeds the next time.
    """
    before, restarts = published(finished), count_restarts(cluster)
    started = time.monotonic()
    outcome = "the same"
    try:
        with killed_at(cluster, moment, kill) as killed:
            beam_work.check(finished, cluster.beam, (work,))
    except RuntimeError as error:
        if work != "Transform" or "Directory not empty" not in str(error):
            raise
        outcome = "failed"
        assert published(finished) == before
    seconds, restarts = time.monotonic() - started, count_restarts(cluster) - restarts
    print(
        f"{kill.__name__}, {work}, {moment}: {outcome}, {restarts} restarts of tasks, "
        f"{seconds:.0f} s"
    )
    assert killed
    if outcome == "failed":
        cluster.wait_until_ready()
        beam_work.check(finished, cluster.beam, (work,))


@SESSION
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("kill", [kill_task_manager, kill_worker])
def test_lost_worker_loses_no_row(finished, cluster, kill, work, moment):
    check_after(kill, finished, cluster, work, moment)


@SESSION
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("work", WORK)
def test_lost_job_manager_fails_the_component_and_publishes_nothing(
    finished, cluster, work, moment
):
    before, started = published(finished), time.monotonic()
    with (
        pytest.raises(RuntimeError) as failed,
        killed_at(cluster, moment, kill_job_manager) as killed,
    ):
        beam_work.check(finished, cluster.beam, (work,))
    print(f"{work}, {moment}: {time.monotonic() - started:.0f} s, {failed.value}")
    assert killed
    assert published(finished) == before
    cluster.wait_until_ready()
    beam_work.check(finished, cluster.beam, (work,))


@AVAILABLE
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("work", WORK)
def test_lost_job_manager_of_an_available_cluster_loses_no_row(
    finished, cluster, work, moment
):
    check_after(kill_job_manager, finished, cluster, work, moment)
