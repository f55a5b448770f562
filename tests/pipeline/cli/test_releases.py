"""The commands about pushed versions: what they print."""

import json
import shlex

import pytest

from pipeline.operations import releases
from pipeline.operations.releases import Release


@pytest.fixture
def invoke(invoke_past):
    return invoke_past


@pytest.fixture
def undo(invoke):
    """Runs the command that a rollback named."""

    def undo(printed):
        command = shlex.split(printed.split("undo with: ")[1].splitlines()[0])
        name, version, *options = command[command.index("rollback") :]
        return invoke(name, version, *options)

    return undo


def test_command_that_undoes_a_rollback_serves_the_version_before(invoke, push, undo):
    for version in (1, 2, 3):
        push(version)
    (push(4) / "saved_model.pb").unlink()
    printed = invoke("rollback")
    assert "version 2 is served; withdrawn: 3, 4\n" in printed
    again = undo(printed)
    assert "version 3 is served; withdrawn: none\n" in again
    assert "version 2 is served; withdrawn: 3\n" in undo(again)


def test_decision_that_was_not_completed_is_shown_as_such(invoke, past, push):
    directory = push(1).parent
    push(2)
    intent = Release(
        action="rollback", version=1, withdrawn=[2], previous=2, confirmed=False
    )
    releases.add_release(directory, intent)
    run = "20260101-010000Z-000000"
    releases.add_release(
        directory, Release(action="override", version=3, run=run, confirmed=False)
    )
    printed = " ".join(invoke("versions").split())
    assert "rolled back" not in printed
    assert "overridden" not in printed
    assert "rollback to 1 by " in printed
    assert "is not complete: `rollback 1` completes it" in printed
    assert f"override of run {run} by " in printed
    assert f"is not complete: `override {run} --reason TEXT` completes it" in printed
    invoke("rollback")
    printed = invoke("versions")
    assert "2 rolled back by" in printed
    assert "rollback to 1" not in printed
    (version, _) = json.loads(invoke("versions", "--json"))["tiny"]
    assert version["release"]["confirmed"] is True


def test_rollback_that_another_push_made_obsolete_is_not_recommended(invoke, push):
    directory = push(1).parent
    push(2)
    intent = Release(action="rollback", version=1, previous=2, confirmed=False)
    releases.add_release(directory, intent)
    push(3)
    printed = " ".join(invoke("versions").split())
    assert "is not complete: another version was pushed since, so it is obsolete" in (
        printed
    )
    assert "completes it" not in printed


def test_withdrawn_directory_that_is_no_model_is_shown_as_incomplete(invoke, push):
    directory = push(1).parent
    (directory / ".withdrawn" / "2").mkdir(parents=True)
    assert "2 incomplete" in " ".join(invoke("versions").split())
    error = " ".join(invoke("rollback", 2, exit_code=2).split())
    assert "VERSION: 2 is incomplete: saved_model.pb is missing" in error


@pytest.mark.parametrize("name", [".ipynb_checkpoints", "@eaDir", "lost+found"])
def test_directory_next_to_a_recipe_is_no_recipe(invoke, push, name):
    served = push(1).parent
    push(2)
    served.with_name(name).mkdir()
    assert "version 1 is served" in invoke("rollback")


def test_error_of_the_journal_is_one_line(invoke, push):
    directory = push(1).parent
    push(2)
    (directory / releases.JOURNAL).mkdir()
    printed = invoke("rollback", exit_code=2)
    assert printed.startswith("error: ")
    assert "Traceback" not in printed
