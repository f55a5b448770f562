"""Whichever call fails, nothing is lost, and the same operation completes afterwards.

`injection` makes the calls fail below Python, in the table of `operations`.
"""

import collections
import errno
import itertools
import shutil

import pytest

from tests.faults.injection import Fault, Injector
from tests.faults.operations import OPERATIONS, PLANTED

pytestmark = pytest.mark.slow

ERRORS = [
    ("fail once", errno.EIO),
    ("fail from", errno.ENOSPC),  # a full disk
    ("fail once", errno.EACCES),
]
SAMPLE = 4  # calls of an operation in `make test`
REAL = [name for name in OPERATIONS if name != PLANTED]


@pytest.fixture(scope="module")
def injector(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler for the library that injects faults")
    directory = tmp_path_factory.mktemp("faults") / "injected"
    with Injector(directory) as injector:
        yield injector


def faults_of(name, calls):
    """Yields faults of an operation: an error and a kill at each of its calls."""
    for number, (call, *_) in enumerate(calls, start=1):
        mode, error = ERRORS[number % len(ERRORS)]
        yield Fault(name, mode, number, error)
        yield Fault(name, "kill", number)
        if call == "write":
            yield Fault(name, "tear", number)


def find_problem(trial, undisturbed):
    """Returns what a fault broke; None if nothing."""
    has_ended = trial.ended.startswith(("done", "refused: ", "killed"))
    if not has_ended or not trial.again.startswith(("done", "refused: ")):
        return "an error that is no line for the user"
    if trial.damage:
        return "a loss"
    if trial.outcome != undisturbed.outcome:
        return "another outcome"
    return None


def check(injector, name, faults_among):
    """Tries faults of an operation, and prints how many ended how."""
    undisturbed = injector.try_fault(Fault(name))
    assert undisturbed.ended == "done"
    assert not undisturbed.damage
    endings = collections.Counter()
    broken = []
    for fault in faults_among(list(faults_of(name, undisturbed.calls))):
        trial = injector.try_fault(fault)
        endings[fault.mode, trial.ended.partition(":")[0]] += 1
        if problem := find_problem(trial, undisturbed):
            broken.append((problem, fault, undisturbed.calls[fault.call - 1], trial))
    print(f"{name}: {len(undisturbed.calls)} calls, {dict(endings)}")
    return broken


@pytest.mark.parametrize("name", REAL)
def test_fault_loses_nothing_and_the_next_run_completes(injector, name):
    def sample(faults):
        # From all parts of the operation, with all kinds of faults.
        step = max(1, len(faults) // SAMPLE) | 1
        return itertools.islice(faults, REAL.index(name) % 3, None, step)

    assert not check(injector, name, sample)


@pytest.mark.nightly
@pytest.mark.parametrize("name", REAL)
def test_fault_at_every_call_loses_nothing(injector, name):
    assert not check(injector, name, lambda faults: faults)


def test_planted_loss_is_found(injector):
    problems = {problem for problem, *_ in check(injector, PLANTED, list)}
    assert "a loss" in problems


def test_pushed_files_reach_the_disk_before_the_name_of_the_version(injector):
    """A power loss after the push must not leave a version with empty files."""
    calls = injector.try_fault(Fault("push")).calls
    (published,) = (
        number
        for number, (call, source, _) in enumerate(calls)
        if call == "rename" and source.endswith("/.200.incomplete")
    )
    synced = {path for call, path, _ in calls[:published] if call == "fsync"}
    renamed = {
        source: target for call, source, target in calls[:published] if call == "rename"
    }
    written = {
        renamed.get(path, path)
        for call, path, _ in calls[:published]
        if call in ("write", "mkdir")
    }
    assert len(written) > 5
    assert written <= synced
    directory = calls[published][1].removesuffix("/.200.incomplete")
    assert ["fsync", directory, ""] in calls[published:]


def test_withdrawn_version_reaches_the_disk_before_the_confirmation(injector):
    calls = injector.try_fault(Fault("rollback")).calls
    names = [call for call, *_ in calls]
    moved = names.index("rename")
    confirmed = len(names) - 1 - names[::-1].index("write")
    synced = [path for call, path, _ in calls[moved:confirmed] if call == "fsync"]
    assert [path.rpartition("/")[2] for path in synced] == [".withdrawn", "tiny"]
