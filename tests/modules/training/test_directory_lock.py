"""Two jobs in one training directory, on a file system and on an object store."""

import concurrent.futures
import json
import logging
import subprocess
import sys
import threading
import time

import pytest
import tensorflow as tf

from contracts.storage import files, uris
from modules.training import checkpoints
from modules.training.checkpoints import DirectoryInUseError, hold_directory

pytestmark = pytest.mark.slow

IN_MEMORY = "ram://training/key"
IN_USE = r"training directory .*key is in use by process \d+ on .*; wait until"


@pytest.fixture(autouse=True)
def fast_beats(monkeypatch):
    monkeypatch.setattr(checkpoints, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(checkpoints, "STALE_SECONDS", 1.0)
    monkeypatch.setattr(checkpoints, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(checkpoints, "_SETTLE_SECONDS", 0.1)


@pytest.fixture(params=["local", "memory"])
def directory(request, tmp_path):
    if request.param == "local":
        return str(tmp_path / "key")
    if tf.io.gfile.exists(IN_MEMORY):
        tf.io.gfile.rmtree(IN_MEMORY)
    return IN_MEMORY


remote_only = pytest.mark.parametrize("directory", ["memory"], indirect=True)


def write_lock(directory, owner):
    content = {"owner": owner, "token": "0123", "beat": 7}
    files.write_json(f"{directory}/lock", content)


def test_second_job_is_refused_while_the_first_trains(directory):
    with hold_directory(directory) as check:
        for _ in range(2):
            with (
                pytest.raises(DirectoryInUseError, match=IN_USE),
                hold_directory(directory),
            ):
                pass
        check()


def wait_until_refused(check):
    """Calls `check` until it raises, and returns the error."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            check()
        except DirectoryInUseError as error:
            return str(error)
        time.sleep(0.02)
    raise AssertionError("the job was not refused")


def test_job_that_ended_leaves_the_directory_to_the_next_at_once(
    directory, monkeypatch
):
    monkeypatch.setattr(checkpoints, "STALE_SECONDS", 60.0)
    for _ in range(2):
        with pytest.raises(SystemExit), hold_directory(directory):
            raise SystemExit(143)
    start = time.monotonic()
    with hold_directory(directory):
        pass
    assert time.monotonic() - start < checkpoints.STALE_SECONDS


# A process of its own, without the seconds that importing TensorFlow takes.
HOLD_UNTIL_KILLED = """
import fcntl, sys, time
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def killed_job(directory):
    """Leaves the files of a job that SIGKILL ended in the directory."""
    if not uris.is_local(directory):
        write_lock(directory, "process 1 on killed-pod")
        return
    tf.io.gfile.makedirs(directory)
    command = [sys.executable, "-c", HOLD_UNTIL_KILLED, f"{directory}/lock"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout.readline() == "held\n"
            with pytest.raises(DirectoryInUseError), hold_directory(directory):
                pass
        finally:
            job.kill()


@pytest.mark.usefixtures("killed_job")
def test_restarted_job_resumes_after_a_kill_without_help(directory):
    with hold_directory(directory) as check:
        check()
        time.sleep(3 * checkpoints.BEAT_SECONDS)
        check()


@remote_only
def test_job_whose_lock_was_taken_over_stops(directory):
    with hold_directory(directory) as check:
        write_lock(directory, "process 1 on other-pod")
        assert "process 1 on other-pod" in wait_until_refused(check)
    assert tf.io.gfile.exists(f"{directory}/lock")  # of the other job


def lock_of_other_process(owner, beat):
    return json.dumps({"owner": owner, "token": "0123", "beat": beat})


def test_watched_lock_that_changes_its_length_is_in_use(bucket, object_store):
    """TensorFlow caches an object's size for 5 seconds, not its content."""
    directory, owner = f"{bucket}/training/key", "process 1 on other-pod"
    object_store.write(f"{directory}/lock", lock_of_other_process(owner, 9))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(hold_directory(directory).__enter__)
        time.sleep(checkpoints.STALE_SECONDS / 3)
        object_store.write(f"{directory}/lock", lock_of_other_process(owner, 10))
        with pytest.raises(DirectoryInUseError, match=owner):
            waiting.result(10)


def test_job_whose_lock_another_process_took_over_stops(bucket, object_store):
    directory, owner = f"{bucket}/training/key", "process 1 on " + "pod" * 100
    with hold_directory(directory) as check:
        check()
        object_store.write(f"{directory}/lock", lock_of_other_process(owner, 1))
        assert owner in wait_until_refused(check)
    assert owner.encode() in object_store.read(f"{directory}/lock")


def test_lock_in_a_bucket_is_deleted_at_the_end(bucket, object_store):
    with hold_directory(f"{bucket}/training/key"):
        assert "training/key/lock" in object_store.keys(bucket)
    assert object_store.keys(bucket) == []


def test_job_whose_bucket_is_unavailable_for_long_stops(bucket, object_store):
    with hold_directory(f"{bucket}/training/key") as check:
        object_store.refuse_after(bucket, 0)
        time.sleep(2 * checkpoints.BEAT_SECONDS)
        check()  # a bucket may be unavailable for a while
        time.sleep(checkpoints.STALE_SECONDS)
        with pytest.raises(tf.errors.PermissionDeniedError):
            check()


@pytest.fixture
def no_beats(monkeypatch):
    """The lock's thread does not run, as in a process that is stopped for a while."""
    monkeypatch.setattr(checkpoints, "BEAT_SECONDS", 60.0)
    monkeypatch.setattr(checkpoints, "STALE_SECONDS", 0.3)


@pytest.mark.usefixtures("no_beats")
@remote_only
def test_job_that_was_stopped_for_long_checks_the_lock_before_it_writes(directory):
    with hold_directory(directory) as check:
        time.sleep(2 * checkpoints.STALE_SECONDS)
        before = files.read_json(f"{directory}/lock")
        check()
        assert files.read_json(f"{directory}/lock") != before  # renewed
        write_lock(directory, "process 1 on other-pod")
        time.sleep(2 * checkpoints.STALE_SECONDS)
        with pytest.raises(DirectoryInUseError, match="process 1 on other-pod"):
            check()


@pytest.mark.usefixtures("no_beats")
@remote_only
def test_one_of_two_jobs_that_start_at_once_gets_the_directory(directory, monkeypatch):
    both_write = threading.Barrier(2, timeout=10)
    is_refused = threading.Event()
    rename = tf.io.gfile.rename

    def rename_after_both_wrote(*args, **settings):
        both_write.wait()
        rename(*args, **settings)

    def run_job():
        try:
            with hold_directory(directory) as check:
                assert is_refused.wait(10)
                check()
                return "trained"
        except DirectoryInUseError:
            is_refused.set()
            return "refused"

    monkeypatch.setattr(tf.io.gfile, "rename", rename_after_both_wrote)
    monkeypatch.setattr(checkpoints, "STALE_SECONDS", 60.0)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        jobs = [pool.submit(run_job) for _ in range(2)]
        assert sorted(job.result() for job in jobs) == ["refused", "trained"]


@pytest.mark.usefixtures("no_beats")
@remote_only
def test_unavailable_bucket_at_the_end_does_not_hide_how_the_job_ended(
    directory, monkeypatch, caplog
):
    caplog.set_level(logging.WARNING, "modules")

    def fail(*_):
        raise tf.errors.UnavailableError(None, None, "503")

    def run_job():
        with hold_directory(directory):
            monkeypatch.setattr(files, "read_record", fail)
            raise SystemExit(143)

    with pytest.raises(SystemExit):
        run_job()
    assert f"{directory}/lock was not removed: 503" in caplog.text
