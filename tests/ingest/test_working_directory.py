"""A working directory belongs to one process at a time, and is published complete."""

import os
import re
import shutil
import subprocess
import sys
import threading

import pytest

from contracts import written_files
from ingest.working_directory import (
    DestinationExistsError,
    WorkingDirectory,
    delete_damaged,
)
from pipeline.config.paths import REPOSITORY
from tests.refusals import refused

HOLD = """
import pathlib, sys, time
from ingest.working_directory import WorkingDirectory
directory = WorkingDirectory(pathlib.Path(sys.argv[1]))
directory.open()
(directory.path / "left").write_text("left")
print("ready", flush=True)
time.sleep(60)
"""


def test_killed_process_releases_its_directory(tmp_path):
    directory = WorkingDirectory(tmp_path / "working")
    command = [sys.executable, "-c", HOLD, str(directory.path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        setting, got = str(directory.path), f"in use by process {process.pid}"
        with refused("E-output-in-use", setting=setting, got=got):
            directory.open()
        directory.delete()  # which it does not hold
        assert (directory.path / "left").read_text() == "left"
        process.kill()
    directory.open()
    assert not (directory.path / "left").exists()


def test_directory_that_was_published_while_another_waited_is_kept(tmp_path):
    first = WorkingDirectory(tmp_path / "working")
    second = WorkingDirectory(tmp_path / "working")
    first.open()
    lines, has_begun = [], threading.Event()

    def wait(line):
        lines.append(line)
        has_begun.set()

    waiting = threading.Thread(target=second.open, kwargs={"wait": wait})
    waiting.start()
    assert has_begun.wait(60)
    assert waiting.is_alive()
    assert lines == [
        f"waiting for process {os.getpid()}, which writes to {second.path}"
    ]
    (first.path / "file").write_text("of the first")
    first.publish(tmp_path / "target")
    waiting.join(60)
    assert not waiting.is_alive()
    (second.path / "file").write_text("of the second")
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["file"]
    assert (tmp_path / "target" / "file").read_text() == "of the first"


@pytest.mark.parametrize("parent", ["file", "file/folder", "x" * 300])
def test_parent_that_cannot_be_a_directory_is_refused(tmp_path, parent):
    (tmp_path / "file").touch()
    directory = WorkingDirectory.beside(tmp_path / parent / "target")
    setting, got = str(tmp_path / parent), re.compile("^cannot be written: ")
    with refused("E-storage-failed", setting=setting, got=got):
        directory.open()


def test_target_whose_name_is_too_long_is_named(tmp_path):
    target = tmp_path / ("x" * 300)
    got = "cannot be written: File name too long"
    with (
        refused("E-storage-failed", setting=str(target), got=got),
        WorkingDirectory.creating(target, print),
    ):
        pass


def test_directory_that_cannot_be_locked_is_refused(tmp_path):
    directory = WorkingDirectory.beside(tmp_path / "target")
    (directory.path / ".lock").mkdir(parents=True)  # root may write anywhere
    got = re.compile(r"cannot be written: .*\.lock\)$")
    with refused("E-storage-failed", setting=str(tmp_path), got=got):
        directory.open()


def test_second_process_of_a_new_directory_waits_and_is_refused(tmp_path):
    target, lines = tmp_path / "target", []

    def create():
        with (
            refused("E-destination-exists", DestinationExistsError),
            WorkingDirectory.creating(target, lines.append),
        ):
            pass

    second = threading.Thread(target=create)
    with WorkingDirectory.creating(target, print) as working:
        second.start()
        second.join(0.2)
        assert second.is_alive()
        assert "waiting for process" in lines[0]
        (working.path / "file").write_text("of the first")
        working.publish(target)
    second.join(10)
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert (target / "file").read_text() == "of the first"


@pytest.mark.parametrize("kind", ["directory", "file", "dangling link"])
def test_existing_target_is_refused(tmp_path, kind):
    target = tmp_path / "target"
    if kind == "directory":
        target.mkdir()
    elif kind == "file":
        target.write_text("")
    else:
        target.symlink_to(tmp_path / "absent")
    with (
        refused("E-destination-exists", DestinationExistsError, setting=str(target)),
        WorkingDirectory.creating(target, print),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_target_that_has_files_is_not_replaced(tmp_path):
    directory = WorkingDirectory(tmp_path / "working")
    directory.open()
    (directory.path / "file").write_text("new")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "file").write_text("kept")
    with pytest.raises(OSError, match="not empty"):
        directory.publish(tmp_path / "target")
    assert (tmp_path / "target" / "file").read_text() == "kept"
    assert (directory.path / "file").read_text() == "new"


@pytest.fixture
def damaged(tmp_path):
    """A published directory, one of whose two files is missing."""
    target = tmp_path / "target"
    target.mkdir()
    for name in ("kept", "lost"):
        (target / name).write_text("old")
    written_files.record(target)
    (target / "lost").unlink()
    return target


def test_damaged_directory_is_deleted_and_named(tmp_path, damaged):
    lines = []
    delete_damaged(damaged, lines.append)
    assert lines == [
        f"{damaged} is written again: 1 of its files are missing or have changed"
    ]
    assert list(tmp_path.iterdir()) == []
    delete_damaged(damaged, lines.append)
    assert len(lines) == 1


def test_files_that_a_user_adds_are_kept(tmp_path, damaged):
    (damaged / "lost").write_text("old")
    (damaged / "notes.txt").write_text("mine")
    delete_damaged(damaged, print)
    assert (damaged / "notes.txt").read_text() == "mine"


def test_directory_that_another_process_wrote_again_is_kept(damaged):
    working, lines = WorkingDirectory.beside(damaged), []
    working.open()
    second = threading.Thread(target=delete_damaged, args=(damaged, lines.append))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    (working.path / "lost").write_text("new")
    written_files.record(working.path)
    shutil.rmtree(damaged)
    working.publish(damaged)
    second.join(10)
    assert (damaged / "lost").read_text() == "new"
    (line,) = lines
    assert "waiting for process" in line


def test_rest_of_a_killed_deletion_is_deleted(tmp_path, damaged, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(WorkingDirectory, "delete", kill)
        with pytest.raises(KeyboardInterrupt):
            delete_damaged(damaged, print)
    assert not damaged.exists()
    with WorkingDirectory.creating(damaged, print) as working:
        working.publish(damaged)
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert list(damaged.iterdir()) == []


def kill(working):
    """Ends as a killed process does: the kernel releases the lock."""
    working._release()
    raise KeyboardInterrupt
