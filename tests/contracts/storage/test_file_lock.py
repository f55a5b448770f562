"""Locks between the processes of a machine, on any file system."""

import errno
import fcntl
import logging
import subprocess
import sys

import pytest

from contracts.storage import file_lock
from pipeline.config.paths import REPOSITORY

# The kernel of a file system without locks, for the files below a directory.
WITHOUT_LOCKS = """
import fcntl, os
from contracts.storage import file_lock

file_lock._SUBSTITUTES = {substitutes!r}
flock = fcntl.flock

def flock_elsewhere(file, operation):
    if getattr(file, "name", "").startswith({directory!r}):
        raise OSError({number}, os.strerror({number}))
    flock(file, operation)

fcntl.flock = flock_elsewhere
"""
HOLD = """
import sys, time
from contracts.storage import file_lock
with file_lock.hold(sys.argv[1], "the first"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def without_locks(request, tmp_path, monkeypatch):
    """Code that takes the locks from a directory, as in this process."""
    for module, name in ((fcntl, "flock"), (file_lock, "_SUBSTITUTES")):
        monkeypatch.setattr(module, name, getattr(module, name))  # restores it
    directory = tmp_path / "mounted"
    directory.mkdir()
    paths = {"directory": str(directory), "substitutes": str(tmp_path)}
    code = WITHOUT_LOCKS.format(**paths, number=request.param)
    exec(code, {})
    return directory, code


def test_file_system_without_locks_is_locked_in_tmp(
    without_locks, caplog, tmp_path, monkeypatch
):
    caplog.set_level(logging.WARNING)
    directory, code = without_locks
    path = directory / "run.lock"
    with file_lock.hold(path, "alone") as file:
        assert path.read_text() == "alone"
        assert file.name == str(path)
        assert file_lock.find_owner(path) == "alone"
    assert f"{path} has no locks" in caplog.text
    assert file_lock.find_owner(path) is None
    monkeypatch.setenv("TMPDIR", str(tmp_path / "mounted"))  # of the other process
    command = [sys.executable, "-c", code + HOLD, str(path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"held\n"
        assert file_lock.find_owner(path) == "the first"
        with pytest.raises(file_lock.LockedError), file_lock.hold(path, "the second"):
            pass
        first.kill()
    with file_lock.hold(path, "the third"):
        assert path.read_text() == "the third"


def test_other_errors_of_a_lock_are_raised(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", fail)
    with (
        pytest.raises(OSError, match="flock: Input/output"),
        file_lock.hold(tmp_path / "a", ""),
    ):
        pass
