"""Two jobs in one training directory, on a file system and on an object store."""

import time

import pytest
import tensorflow as tf

from modules import checkpoints, directory_lock
from modules.directory_lock import DirectoryInUseError, hold

REMOTE = "ram://training/key"
IN_USE = r"training directory .*key is in use by process \d+ on .*; wait for"


@pytest.fixture(autouse=True)
def fast_beats(monkeypatch):
    monkeypatch.setattr(directory_lock, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(directory_lock, "STALE_SECONDS", 1.0)
    monkeypatch.setattr(directory_lock, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(directory_lock, "_SETTLE_SECONDS", 0.1)


@pytest.fixture(params=["local", "remote"])
def directory(request, tmp_path):
    if request.param == "local":
        return str(tmp_path / "key")
    if tf.io.gfile.exists(REMOTE):
        tf.io.gfile.rmtree(REMOTE)
    return REMOTE


def write_lock(directory, owner):
    content = {"owner": owner, "token": "0123", "beat": 7}
    checkpoints.write_json(f"{directory}/lock", content)


def test_second_job_is_refused_while_the_first_trains(directory):
    with hold(directory) as check:
        for _ in range(2):
            with pytest.raises(DirectoryInUseError, match=IN_USE), hold(directory):
                pass
        check()


def test_job_that_ended_leaves_the_directory_to_the_next_at_once(directory):
    for _ in range(2):
        with pytest.raises(SystemExit), hold(directory):
            raise SystemExit(143)
    start = time.monotonic()
    with hold(directory):
        pass
    assert time.monotonic() - start < directory_lock.STALE_SECONDS


def test_restarted_job_resumes_after_a_kill_without_help(directory):
    write_lock(directory, "process 1 on killed-pod")
    with hold(directory) as check:
        check()
        time.sleep(3 * directory_lock.BEAT_SECONDS)
        check()


@pytest.mark.parametrize("directory", ["remote"], indirect=True)
def test_job_whose_lock_was_taken_over_stops(directory):
    with hold(directory) as check:
        write_lock(directory, "process 1 on other-pod")
        time.sleep(3 * directory_lock.BEAT_SECONDS)
        with pytest.raises(DirectoryInUseError, match="process 1 on other-pod"):
            check()
    assert tf.io.gfile.exists(f"{directory}/lock")  # of the other job
