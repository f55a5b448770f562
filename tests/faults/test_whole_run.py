"""Whatever happens during a run, the served version stays, and a rerun completes.

Each run here would push a second version, trained on new data.
"""

import dataclasses
import os
import shutil
import signal
import time

import pytest

from contracts.versions import served_versions
from pipeline import exit_status
from pipeline.operations.runs import RunList
from tests.faults.disturbed_run import Clock, OutputDirectory, locked
from tests.mounts import read_only, small_disk

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.faults]

KILLS, STOPS = 20, 5
STOPPED_SECONDS = 30
LOCKED_SECONDS = 20


@dataclasses.dataclass(frozen=True)
class Undisturbed:
    """An undisturbed second run.

    Attributes:
      seconds: Its duration.
      metrics: Its metrics by name.
    """

    seconds: float
    metrics: dict[str, float]


def metrics_of_latest(paths):
    """Returns the metrics of the latest run, of which every record can be read."""
    runs = RunList(paths, requires_metadata=True)
    assert not runs.problems
    assert runs[0].state == "pushed", runs[0]
    return runs[0].metrics


def check_metrics(paths, undisturbed):
    """Checks that the latest run trained as the undisturbed one."""
    # Sums of parallel threads differ in their last bits.
    expected = pytest.approx(undisturbed.metrics, rel=1e-4, nan_ok=True)
    assert metrics_of_latest(paths) == expected


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """An output directory with one version, a copy of it, and an undisturbed run."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    directory.mkdir()
    output = OutputDirectory(directory)
    status, printed = output.start().end()
    assert status == 0, printed
    copy = directory.with_name("copy")
    shutil.copytree(directory, copy)
    start = time.monotonic()
    status, printed = output.start_next().end()
    assert status == 0, printed
    seconds = time.monotonic() - start
    return output, copy, Undisturbed(seconds, metrics_of_latest(output.paths))


@pytest.fixture
def undisturbed(first):
    return first[2]


@pytest.fixture
def output(first):
    """The directory, which each test has as it was after the first run."""
    output, copy, _ = first
    shutil.rmtree(output.recipe.parent)
    shutil.copytree(copy, output.recipe.parent)
    return output


def complete_versions(output):
    """Returns the versions that a model server may load, whose files are whole."""
    versions = list(served_versions.list_complete(str(output.paths.pushed)))
    for version in versions:
        served_versions.verify(str(output.paths.pushed / version))
    return sorted(versions, key=int)


def check_refusal(status, printed):
    """Checks that a run ended with one line that says why."""
    errors = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert status in (exit_status.FAILURE, exit_status.USAGE), printed
    assert len(errors) == 1, printed
    assert "Traceback" not in printed
    print(errors[0])


def check_completion(output, before, undisturbed):
    """Checks that the versions are still served, and that a rerun adds one."""
    served = complete_versions(output)
    assert served[: len(before)] == before
    status, printed = output.start_next().end()
    assert status == 0, printed
    assert len(complete_versions(output)) == 2
    check_metrics(output.paths, undisturbed)
    left = [path.name for path in output.paths.pushed.iterdir()]
    assert sorted(left) == complete_versions(output)


@pytest.mark.parametrize("number", range(1, KILLS + 1))
def test_killed_run_is_completed_by_the_next(output, undisturbed, number):
    before = complete_versions(output)
    run = output.start_next()
    time.sleep(undisturbed.seconds * number / (KILLS + 1))
    print("killed in", run.running)
    run.send(signal.SIGKILL)
    run.end()
    check_completion(output, before, undisturbed)


@pytest.mark.parametrize("number", range(1, STOPS + 1))
def test_run_that_stood_still_goes_on(output, undisturbed, number):
    run = output.start_next()
    time.sleep(undisturbed.seconds * number / (STOPS + 1))
    print("stopped in", run.running)
    run.send(signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    run.send(signal.SIGCONT)
    status, printed = run.end()
    assert status == 0, printed
    assert len(complete_versions(output)) == 2
    check_metrics(output.paths, undisturbed)


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    ("name", "room"),
    [("artifacts/Transform", 16 << 10), ("training", 64 << 10), ("serving", 64 << 10)],
)
def test_full_disk_ends_the_run_with_one_line(output, undisturbed, name, room):
    before = complete_versions(output)
    with small_disk(output.paths.root / name, room) as enlarge:
        check_refusal(*output.start_next().end())
        enlarge()
        check_completion(output, before, undisturbed)


@pytest.mark.parametrize("component", ["Transform", "Trainer", "Evaluator"])
def test_locked_database_delays_the_run_or_ends_it(output, undisturbed, component):
    before = complete_versions(output)
    run = output.start_next()
    run.wait_for(component)
    with locked(output.paths.metadata):
        time.sleep(LOCKED_SECONDS)
    status, printed = run.end()
    if status:
        check_refusal(status, printed)
        check_completion(output, before, undisturbed)
    else:
        assert len(complete_versions(output)) == 2


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize("component", ["Transform", "Trainer", "Evaluator"])
def test_read_only_database_ends_the_run_with_one_line(output, undisturbed, component):
    before = complete_versions(output)
    run = output.start_next()
    run.wait_for(component)
    with read_only(output.paths.metadata):
        check_refusal(*run.end())
    check_completion(output, before, undisturbed)


@pytest.mark.parametrize("component", ["Transform", "Trainer", "Evaluator"])
def test_database_that_was_cut_short_is_restored_from_a_backup(
    output, undisturbed, component
):
    before = complete_versions(output)
    database = output.paths.metadata
    backup = shutil.copy(database, output.recipe.parent / "backup")
    run = output.start_next()
    run.wait_for(component)
    os.truncate(database, database.stat().st_size // 2)
    check_refusal(*run.end())
    check_refusal(*output.start_next().end())
    shutil.copy(backup, database)
    check_completion(output, before, undisturbed)


def test_second_run_at_once_is_refused_and_the_first_goes_on(output, undisturbed):
    before = complete_versions(output)
    run = output.start_next()
    run.wait_for("Trainer")
    status, printed = output.start_next(log="other log").end()
    check_refusal(status, printed)
    assert "is in use by process" in printed
    status, printed = run.end()
    assert status == 0, printed
    assert complete_versions(output)[:1] == before
    check_metrics(output.paths, undisturbed)


def test_clock_that_jumps_back_a_day_leaves_the_new_version_the_newest(
    output, undisturbed, tmp_path
):
    before = complete_versions(output)
    clock = Clock(tmp_path)
    run = output.start_next(**clock.environment)
    run.wait_for("Transform")
    clock.move(-24 * 60 * 60)
    status, printed = run.end()
    assert status == 0, printed
    after = complete_versions(output)
    assert after[:1] == before
    assert len(after) == 2
    check_metrics(output.paths, undisturbed)
    (latest, *_) = RunList(output.paths)
    assert latest.record.seconds is None
    assert min(component.seconds for component in latest.components) == 0


@pytest.mark.parametrize("component", ["Trainer", "Evaluator", "ServingCheck"])
def test_champion_that_is_deleted_during_the_run(output, component):
    run = output.start_next()
    run.wait_for(component)
    (champion,) = complete_versions(output)
    shutil.rmtree(output.paths.pushed / champion)
    status, printed = run.end()
    if status:
        check_refusal(status, printed)
        status, printed = output.start_next().end()
    assert status == 0, printed
    assert len(complete_versions(output)) == 1
    metrics_of_latest(output.paths)


@pytest.mark.parametrize("component", ["Transform", "Trainer", "Evaluator"])
def test_run_that_lacks_memory_is_killed_and_completed_by_the_next(
    output, undisturbed, memory_limit, component
):
    before = complete_versions(output)
    run = output.start_next()
    run.wait_for(component)
    memory_limit(run.process.pid, 16 << 20)
    status, printed = run.end()
    assert status == -signal.SIGKILL, printed
    check_completion(output, before, undisturbed)
