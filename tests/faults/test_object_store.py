"""Whichever request to an object store fails, nothing is lost.

`tests.object_store` makes requests of the operations in `object_operations` fail.
"""

import collections
import itertools
import traceback

import pytest

from modules import remote_files
from tests.faults.injection import Trial, describe_error
from tests.faults.object_operations import OPERATIONS, PLANTED
from tests.faults.test_faults import find_problem

pytestmark = pytest.mark.slow

# TensorFlow sends a request up to 11 times. So 11 failures make one of its calls fail,
# and the next one succeeds.
OUTAGE = 11
# Kind of a fault, and how many requests in a row fail.
FAULTS = [
    (429, 1),
    (500, 1),
    (503, OUTAGE),
    (503, None),
    ("cut", 1),
    ("short", 1),
]
# In `make test`; the tests of checkpoints and files have faults of their own.
SAMPLED = ("push", "newest version", "model card", "verdict")


@pytest.fixture
def try_fault(bucket, object_store, monkeypatch):
    """Returns a function that runs an operation with a fault, and again without it.

    The objects that an operation starts from are written once and then copied.
    """
    monkeypatch.setattr(remote_files, "_PAUSES", (0,) * 6)
    numbers = itertools.count()
    prepared = {}

    def attempt(step, work):
        try:
            return "done", step(work)
        except Exception as error:  # noqa: BLE001 (it is the answer)
            return describe_error(error), None

    def prepare(operation, work):
        if operation not in prepared:
            template = f"{bucket}/{next(numbers)}"
            operation.prepare(template)
            prefix = template.split("/", 3)[3] + "/"
            prepared[operation] = {
                key.removeprefix(prefix): object_store.read(f"{bucket}/{key}")
                for key in object_store.keys(f"{template}/")
            }
        for name, content in prepared[operation].items():
            object_store.write(f"{work}/{name}", content)

    def try_fault(operation, kind=None, first=1, times=1, expected=None):
        """Returns a `Trial`, and the value that the operation returned."""
        work = f"{bucket}/{next(numbers)}"
        prepare(operation, work)
        object_store.fail(bucket, kind, first, times)
        ended, value = attempt(operation.run, work)
        requests = [request.split(" ", 1) for request in object_store.accept_all()]
        try:
            operation.check(work)
            damage = ""
        except Exception:  # noqa: BLE001 (it is the answer)
            damage = traceback.format_exc()
        if kind is not None and ended == "done" and value != expected:
            damage += f"{value} instead of {expected}"
        again, _ = attempt(operation.run, work)
        trial = Trial(requests, ended, damage, again, operation.outcome(work))
        return trial, value

    return try_fault


def check(try_fault, name, operation, faults_among):
    """Tries faults of an operation, and prints how many ended how."""
    undisturbed, value = try_fault(operation)
    assert undisturbed.ended == "done"
    assert not undisturbed.damage
    endings = collections.Counter()
    broken = []
    numbers = range(1, len(undisturbed.calls) + 1)
    for (kind, times), first in faults_among(list(itertools.product(FAULTS, numbers))):
        trial, _ = try_fault(operation, kind, first, times, value)
        endings[kind, times, trial.ended.partition(":")[0]] += 1
        if problem := find_problem(trial, undisturbed):
            broken.append((problem, kind, times, undisturbed.calls[first - 1], trial))
    print(f"{name}: {len(numbers)} requests, {dict(endings)}")
    return broken


@pytest.mark.parametrize("name", SAMPLED)
def test_failed_request_loses_nothing_and_the_next_run_completes(try_fault, name):
    def sample(faults):
        # 503 for a while, and a short response, in the middle of the operation.
        return faults[len(faults) * 5 // 12 :: len(faults) // 2]

    assert not check(try_fault, name, OPERATIONS[name], sample)


@pytest.mark.nightly
@pytest.mark.parametrize("name", OPERATIONS)
def test_fault_at_every_request_loses_nothing(try_fault, name):
    def in_turn(faults):
        # `faults` has those of each kind in a row.
        requests = len(faults) // len(FAULTS)
        return [faults[n % len(FAULTS) * requests + n] for n in range(requests)]

    assert not check(try_fault, name, OPERATIONS[name], in_turn)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_loss_on_an_object_store_is_found(try_fault, name):
    def some_kinds(faults):
        return [fault for fault in faults if fault[0] in ((503, OUTAGE), ("short", 1))]

    problems = check(try_fault, name, PLANTED[name], some_kinds)
    assert "a loss" in {problem for problem, *_ in problems}
