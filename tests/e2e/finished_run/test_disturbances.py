"""Storage fails while a run pushes: one line, and the next run completes.

`tests/faults/test_whole_run.py` has more disturbances, of runs that train.
"""

import contextlib
import errno
import os
import shutil

import pytest
from ml_metadata import errors as mlmd_errors
from tfx.orchestration.portable.input_resolution import node_inputs_resolver

from contracts.versions import served_versions
from pipeline import exit_status
from tests.mounts import read_only, small_disk

pytestmark = pytest.mark.e2e


@pytest.fixture
def unpushed(finished):
    """A finished run whose version was deleted: the next run pushes it again."""
    shutil.rmtree(finished.run.pushed)
    return finished


def check_refusal(reason, status, shown, errors):
    """Checks that a run failed with one line that has the reason."""
    assert status == exit_status.FAILURE, shown
    *_, line = errors.splitlines()  # after warnings
    assert line.startswith("error: ")
    assert reason in line
    assert "Traceback" not in errors


def check_completion(unpushed, run_command):
    """Checks that a run serves one version, and executes only what was missing."""
    status, shown, _ = run_command()
    assert status == 0, shown
    (version,) = os.listdir(unpushed.paths.pushed)
    assert not served_versions.verify(str(unpushed.paths.pushed / version))
    assert unpushed.executed() <= {"AtomicPusher", "Report"}


@pytest.mark.usefixtures("mounts")
def test_full_disk_in_the_push_is_one_line_and_the_next_run_pushes(
    unpushed, run_command
):
    with small_disk(unpushed.paths.serving, room=64 << 10) as enlarge:
        check_refusal(os.strerror(errno.ENOSPC), *run_command())
        assert not list(served_versions.list_complete(str(unpushed.paths.pushed)))
        enlarge()
        check_completion(unpushed, run_command)


@contextlib.contextmanager
def cut_short(database):
    content = database.read_bytes()
    os.truncate(database, len(content) // 2)
    yield
    database.write_bytes(content)  # from a backup


@pytest.fixture
def check_failing_database(unpushed, run_command, monkeypatch):
    """Checks a run whose database fails from its push on."""
    push = served_versions.push

    def check_failing_database(disturb, reason):
        with contextlib.ExitStack() as disturbed:

            def push_and_disturb(*arguments, **options):
                push(*arguments, **options)
                disturbed.enter_context(disturb(unpushed.paths.metadata))

            with monkeypatch.context() as patched:
                patched.setattr(served_versions, "push", push_and_disturb)
                check_refusal(reason, *run_command())
        check_completion(unpushed, run_command)

    return check_failing_database


@pytest.mark.nightly
def test_database_that_is_cut_short_during_the_push_leads_to_no_second_version(
    check_failing_database,
):
    check_failing_database(cut_short, "malformed")


@pytest.mark.usefixtures("mounts")
def test_database_that_is_read_only_from_the_push_on_leads_to_no_second_version(
    check_failing_database,
):
    check_failing_database(read_only, "readonly")


@pytest.mark.nightly
def test_inputs_of_the_pusher_that_cannot_be_read_end_the_run(
    unpushed, run_command, monkeypatch
):
    resolve = node_inputs_resolver.resolve

    def resolve_all_but_the_pusher_s(handle, node_inputs):
        if {"model", "model_blessing"} <= set(node_inputs.inputs):
            raise mlmd_errors.InternalError("database is locked")
        return resolve(handle, node_inputs)

    with monkeypatch.context() as patched:
        patched.setattr(node_inputs_resolver, "resolve", resolve_all_but_the_pusher_s)
        check_refusal("ML Metadata: database is locked", *run_command())
    check_completion(unpushed, run_command)
