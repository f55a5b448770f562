"""A rollback switches the served version once, and can be undone."""

import pathlib

import pytest

from modules import served_versions
from modules.errors import UsageError
from pipeline.releases import journal
from pipeline.releases.pushed_versions import list_pushed
from pipeline.releases.rollback import roll_back


@pytest.fixture
def directory(past, push):
    for version in (1, 2, 3):
        push(version)
    return past.paths.pushed


def states(past):
    return {pushed.version: pushed.state for pushed in list_pushed(past.paths)}


def test_served_version_changes_once_and_never_to_one_in_between(
    directory, past, monkeypatch
):
    seen, rename = [], pathlib.Path.rename

    def rename_and_look(path, destination):
        rename(path, destination)
        seen.append(served_versions.find_newest(str(directory)))

    monkeypatch.setattr(pathlib.Path, "rename", rename_and_look)
    release = roll_back(directory, 1, "")
    assert seen == ["3", "1"]
    assert release.withdrawn == [2, 3]
    assert states(past) == {3: "withdrawn", 2: "withdrawn", 1: "served"}


def test_rollback_without_a_version_serves_the_one_before(directory, past):
    assert roll_back(directory, None, "").version == 2
    assert states(past) == {3: "withdrawn", 2: "served", 1: "earlier"}


def test_rollback_to_a_withdrawn_version_undoes_it(directory, past):
    roll_back(directory, 2, "slow")
    assert roll_back(directory, 3, "fast again").withdrawn == []
    assert states(past) == {3: "served", 2: "earlier", 1: "earlier"}


def test_withdrawn_version_comes_back_below_the_newer_ones(directory, past):
    roll_back(directory, 1, "")
    roll_back(directory, 3, "")
    roll_back(directory, 2, "")
    assert states(past) == {3: "withdrawn", 2: "served", 1: "earlier"}


def test_who_when_and_why_is_recorded(directory, past):
    roll_back(directory, 2, "slow on long texts")
    (pushed, _, _) = list_pushed(past.paths)
    assert pushed.release.reason == "slow on long texts"
    assert "@" in pushed.release.by
    assert journal.withdrawal_of(directory, 3) == pushed.release
    assert journal.withdrawal_of(directory, 2) is None


def test_user_without_a_name_can_roll_back(directory, monkeypatch):
    """As in a container that runs with an id that /etc/passwd does not list."""

    def find_no_name():
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr("getpass.getuser", find_no_name)
    monkeypatch.setattr("os.getuid", lambda: 1234)
    assert roll_back(directory, 2, "").by.startswith("uid 1234@")


def test_incomplete_version_is_neither_chosen_nor_accepted(directory):
    (directory / "2" / "saved_model.pb").write_bytes(b"half")
    with pytest.raises(UsageError, match="version 2 is incomplete"):
        roll_back(directory, 2, "")
    assert roll_back(directory, None, "").version == 1


@pytest.mark.parametrize(
    ("version", "message"),
    [(3, "is served already"), (7, "is not in"), (0, "is not in")],
)
def test_version_that_cannot_be_rolled_back_to_is_refused(directory, version, message):
    with pytest.raises(UsageError, match=message):
        roll_back(directory, version, "")
    assert served_versions.find_newest(str(directory)) == "3"


def test_only_version_has_no_previous_one(past, push):
    push(1)
    with pytest.raises(UsageError, match="no earlier version"):
        roll_back(past.paths.pushed, None, "")
