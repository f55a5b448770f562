"""Rollbacks, and the journal of rollbacks and overrides."""

import datetime
import json
import logging
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

import pytest

from contracts.errors import UsageError
from contracts.storage import json_lines
from contracts.versions import served_versions
from pipeline.config.paths import REPOSITORY
from pipeline.operations import releases
from pipeline.operations.releases import Release, list_pushed, roll_back
from tests.refusals import refused

# As releases without `confirmed` and `previous` wrote it.
BEFORE = (
    '{"format": 1, "action": "override", "version": 7, "reason": "a typo", "by": "a@b",'
    ' "time": "2026-11-25T02:45:00+00:00", "run": "20261125-014907Z-000000",'
    ' "withdrawn": []}\n'
    '{"format": 1, "action": "rollback", "version": 6, "reason": "", "by": "a@b",'
    ' "time": "2026-11-25T02:46:00+00:00", "run": null, "withdrawn": [7]}\n'
)
# Dies before a write of the journal or a move, after so many of them.
KILLED = """
import os, pathlib, signal, sys
from pipeline.operations import releases

steps = iter(range(int(sys.argv[2])))


def killed(function):
    def call(*arguments):
        if next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)

    return call


releases.add_release = killed(releases.add_release)
pathlib.Path.rename = killed(pathlib.Path.rename)
releases.roll_back(pathlib.Path(sys.argv[1]), int(sys.argv[3]), "slow")
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / releases.JOURNAL
    path.write_text(BEFORE)
    return path


def test_journal_of_an_earlier_format_is_read(file, tmp_path):
    assert [release.confirmed for release in releases.read_journal(tmp_path)] == [
        True,
        True,
    ]
    assert releases.override_of(releases.read_journal(tmp_path), 7).reason == "a typo"
    assert releases.withdrawal_of(releases.read_journal(tmp_path), 7).version == 6


def test_time_of_a_decision_is_written_in_utc(tmp_path, zone):
    zone("America/Los_Angeles")
    before = datetime.datetime.now(datetime.timezone.utc)
    releases.add_release(tmp_path, Release(action="rollback", version=7))
    written = json.loads((tmp_path / releases.JOURNAL).read_text())["time"]
    assert written.endswith(("Z", "+00:00"))
    zone("Asia/Tokyo")
    (release,) = releases.read_journal(tmp_path)
    assert datetime.timedelta(0) <= release.time - before < datetime.timedelta(hours=1)


def test_intent_is_replaced_by_the_next_decision_of_its_kind(file, tmp_path):
    for run in ("a", "b"):
        releases.add_release(
            tmp_path, Release(action="override", version=8, run=run, confirmed=False)
        )
    releases.add_release(
        tmp_path, Release(action="rollback", version=7, confirmed=False)
    )
    releases.add_release(tmp_path, Release(action="override", version=9, run="a"))
    assert [
        (release.action, release.version, release.run)
        for release in releases.read_journal(tmp_path)[2:]
    ] == [("override", 8, "b"), ("rollback", 7, None), ("override", 9, "a")]
    assert releases.find_intent(tmp_path, "override", "a") is None
    assert releases.find_intent(tmp_path, "override", "b").version == 8
    assert releases.find_intent(tmp_path, "rollback").version == 7


def test_error_between_the_two_records_leaves_the_intent(tmp_path):
    with (
        refused("E-storage-failed"),
        releases.recording(tmp_path, Release(action="rollback", version=7)),
    ):
        raise UsageError(got="7 cannot be moved", name="E-storage-failed")
    (release,) = releases.read_journal(tmp_path)
    assert not release.confirmed


@pytest.mark.parametrize("torn", ['{"format": 1, "act', '"rollback"', "\0\0\0"])
def test_line_that_was_not_written_whole_is_skipped(file, tmp_path, caplog, torn):
    file.write_text(BEFORE + torn)
    with caplog.at_level(logging.WARNING, logger=json_lines.logger.name):
        assert len(releases.read_journal(tmp_path)) == 2
    assert "releases.jsonl:3 is not a record and is skipped" in caplog.text
    releases.add_release(tmp_path, Release(action="rollback", version=8))
    assert [release.version for release in releases.read_journal(tmp_path)] == [7, 6, 8]


def test_line_that_an_editor_left_without_its_end_counts(file, tmp_path):
    file.write_text(BEFORE.rstrip("\n"))
    releases.add_release(tmp_path, Release(action="rollback", version=8))
    assert [release.version for release in releases.read_journal(tmp_path)] == [7, 6, 8]


def test_record_of_a_later_format_is_refused(file, tmp_path):
    file.write_text(BEFORE.replace('"format": 1', '"format": 2'))
    with refused("E-file-format-other"):
        releases.read_journal(tmp_path)


@pytest.fixture
def directory(past, push):
    for version in (1, 2, 3):
        push(version)
    return past.paths.pushed


def states(past):
    return {pushed.version: pushed.state for pushed in list_pushed(past.paths)}


@pytest.fixture
def seen(directory, monkeypatch):
    """The version that a server finds after each move of a directory."""
    seen, rename = [], pathlib.Path.rename

    def rename_and_look(path, destination):
        rename(path, destination)
        seen.append(served_versions.find_newest(str(directory)))

    monkeypatch.setattr(pathlib.Path, "rename", rename_and_look)
    return seen


def test_served_version_changes_once_and_never_to_one_in_between(directory, past, seen):
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
    assert releases.withdrawal_of(releases.read_journal(directory), 3) == pushed.release
    assert releases.withdrawal_of(releases.read_journal(directory), 2) is None


def test_user_without_a_name_can_roll_back(directory, monkeypatch):
    """As in a container that runs with an id that /etc/passwd does not list."""

    def find_no_name():
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr("getpass.getuser", find_no_name)
    monkeypatch.setattr("os.getuid", lambda: 1234)
    assert roll_back(directory, 2, "").by.startswith("uid 1234@")


def test_incomplete_version_is_neither_chosen_nor_accepted(directory):
    (directory / "2" / "saved_model.pb").write_bytes(b"half")
    got = re.compile("^2 is incomplete: ")
    with refused("E-model-damaged", setting="version", got=got):
        roll_back(directory, 2, "")
    assert roll_back(directory, None, "").version == 1


@pytest.mark.parametrize(
    ("version", "reason", "name", "setting", "got"),
    [
        (3, "", "E-version-unknown", "version", "3 is served already"),
        (7, "", "E-version-unknown", "version", "7 is not in "),
        (0, "", "E-version-unknown", "version", "0 is not in "),
        # No terminal can print it.
        (None, "cut \ud83d", "E-text-refused", "reason", "has a lone surrogate"),
    ],
)
def test_refused_rollback_moves_no_version(
    directory, version, reason, name, setting, got
):
    with refused(name, setting=setting, got=re.compile(f"^{got}")):
        roll_back(directory, version, reason)
    assert served_versions.find_newest(str(directory)) == "3"


def test_only_version_has_no_previous_one(past, push):
    push(1)
    got = f"no earlier one in {past.paths.pushed}"
    with refused("E-version-unknown", setting="version", got=got):
        roll_back(past.paths.pushed, None, "")


def test_incomplete_version_is_withdrawn_too_and_is_not_the_one_to_return_to(
    directory, past
):
    (directory / "3" / "saved_model.pb").unlink()
    release = roll_back(directory, None, "")
    assert (release.version, release.previous) == (1, 2)
    assert release.withdrawn == [2, 3]
    assert states(past) == {3: "incomplete", 2: "withdrawn", 1: "served"}
    assert roll_back(directory, release.previous, "").version == 2


def test_second_name_of_a_number_is_withdrawn_too(directory, seen):
    for name in ("03", "003", "01"):
        shutil.copytree(directory / "3", directory / name)
    release = roll_back(directory, 1, "")
    assert seen == ["3", "3", "3", "1"]
    assert release.withdrawn == [2, 3]


@pytest.mark.parametrize(
    ("serve", "obstacle", "moved"),
    [(3, "3", ".withdrawn/3"), (1, ".withdrawn/2", "2")],
    ids=["served", "withdrawn"],
)
def test_rollback_names_what_is_in_the_way_before_it_moves_a_version(
    directory, serve, obstacle, moved
):
    if serve == 3:
        roll_back(directory, 2, "")
    (directory / obstacle).mkdir(parents=True)
    (directory / obstacle / "README.md").write_text("a stub")
    before = sorted(directory.rglob("*"))
    with refused(
        "E-destination-exists",
        setting=str(directory / moved),
        got=f"cannot be moved: {directory / obstacle} exists",
    ):
        roll_back(directory, serve, "")
    assert sorted(directory.rglob("*")) == before


def lead_to_a_full_disk(directory):
    (directory / releases.JOURNAL).symlink_to("/dev/full")


def replace_the_journal(directory):
    (directory / releases.JOURNAL).mkdir()


def replace_the_directory_of_withdrawn_versions(directory):
    (directory / served_versions.WITHDRAWN).touch()


@pytest.mark.parametrize(
    ("fault", "file", "got"),
    [
        (lead_to_a_full_disk, releases.JOURNAL, "written: No space left"),
        (replace_the_journal, releases.JOURNAL, "written: Is a directory"),
        (
            replace_the_directory_of_withdrawn_versions,
            served_versions.WITHDRAWN,
            "created: File exists",
        ),
    ],
)
def test_nothing_is_moved_if_the_rollback_cannot_be_recorded(
    directory, fault, file, got
):
    fault(directory)
    setting, got = str(directory / file), re.compile(f"^cannot be {got}")
    with refused("E-storage-failed", setting=setting, got=got):
        roll_back(directory, 1, "")
    assert served_versions.list_versions(str(directory)) == ["3", "2", "1"]


def test_rollback_that_cannot_be_confirmed_is_repaired_by_another(
    directory, past, monkeypatch
):
    """The disk is full after the move: the second record is written in part."""
    rename, (soft, hard) = (
        pathlib.Path.rename,
        resource.getrlimit(resource.RLIMIT_FSIZE),
    )

    def rename_and_fill_the_disk(path, destination):
        rename(path, destination)
        size = (directory / releases.JOURNAL).stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))

    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "rename", rename_and_fill_the_disk)
        try:
            got = "cannot be written: File too large"
            with refused("E-storage-failed", got=got):
                roll_back(directory, None, "slow")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert roll_back(directory, None, "").withdrawn == [3]
    assert states(past) == {3: "withdrawn", 2: "served", 1: "earlier"}
    (release,) = releases.read_journal(directory)
    assert (release.confirmed, release.reason) == (True, "slow")


@pytest.fixture
def kill(directory):
    """Kills a rollback to a version after some steps: journal, moves, journal."""

    def kill(steps, version):
        command = [
            sys.executable,
            "-c",
            KILLED,
            str(directory),
            f"{steps}",
            f"{version}",
        ]
        killed = subprocess.run(command, cwd=REPOSITORY, check=False)
        assert killed.returncode == -signal.SIGKILL

    return kill


@pytest.mark.parametrize(
    ("steps", "served"),
    [(0, "3"), (1, "3"), (2, "3"), (3, "1")],
    ids=["before all", "recorded", "one moved", "all moved"],
)
def test_rollback_that_was_killed_is_completed_by_another(
    directory, past, kill, steps, served
):
    kill(steps, version=1)
    assert served_versions.find_newest(str(directory)) == served
    intents = [
        (r.confirmed, r.version, r.withdrawn) for r in releases.read_journal(directory)
    ]
    assert intents == ([(False, 1, [2, 3])] if steps else [])
    release = roll_back(directory, None if steps else 1, "")
    assert releases.read_journal(directory) == [release]
    assert release.confirmed
    assert (release.version, release.previous, release.withdrawn) == (1, 3, [2, 3])
    assert release.reason == ("slow" if steps else "")
    assert states(past) == {3: "withdrawn", 2: "withdrawn", 1: "served"}
    roll_back(directory, 3, "")
    assert states(past)[3] == "served"


@pytest.mark.parametrize("steps", [1, 2], ids=["recorded", "moved"])
def test_undo_that_was_killed_is_completed_by_another(directory, past, kill, steps):
    roll_back(directory, 2, "")
    kill(steps, version=3)
    assert roll_back(directory, None, "").version == 3
    assert [release.version for release in releases.read_journal(directory)] == [2, 3]
    assert states(past) == {3: "served", 2: "earlier", 1: "earlier"}


def test_another_decision_replaces_a_rollback_that_was_killed(directory, past, kill):
    kill(2, version=1)
    assert states(past) == {3: "served", 2: "withdrawn", 1: "earlier"}
    release = roll_back(directory, 3, "as it was")
    assert release.previous is None  # the command that would undo it serves version 3
    assert releases.read_journal(directory) == [release]
    assert releases.withdrawal_of(releases.read_journal(directory), 2) == release
    assert states(past) == {3: "served", 2: "withdrawn", 1: "earlier"}


def test_killed_rollback_is_not_completed_after_another_version_was_pushed(
    directory, past, kill, push
):
    kill(1, version=1)
    push(4)
    assert roll_back(directory, None, "").version == 3
    assert states(past)[3] == "served"
