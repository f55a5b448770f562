"""The object store serves the clients that the project uses, and ends with its user."""

import os
import signal
import subprocess
import sys

import psutil
import pytest
import tensorflow as tf
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY

from pipeline.config.paths import REPOSITORY
from pipeline.local.interruption import is_alive
from tests.nightly import nightly
from tests.object_store import client, fixtures
from tests.serving.conftest import wait_until


def write(path, content):
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(content)


def test_tensorflow_writes_reads_lists_and_renames(bucket, object_store):
    large = "0123456789" * 1_000_000
    write(f"{bucket}/a/large.txt", large)
    object_store.write(f"{bucket}/a/b/ö %2F.txt", "small")
    with tf.io.gfile.GFile(f"{bucket}/a/large.txt") as file:
        assert file.read() == large
    with tf.io.gfile.GFile(f"{bucket}/a/b/ö %2F.txt") as file:
        assert file.read() == "small"
    assert sorted(tf.io.gfile.listdir(f"{bucket}/a")) == ["b/", "large.txt"]
    assert tf.io.gfile.glob(f"{bucket}/a/*.txt") == [f"{bucket}/a/large.txt"]
    tf.io.gfile.rename(f"{bucket}/a", f"{bucket}/z")
    assert object_store.keys(bucket) == ["z/b/ö %2F.txt", "z/large.txt"]
    tf.io.gfile.rmtree(f"{bucket}/z")
    assert object_store.keys(bucket) == []
    with pytest.raises(tf.errors.NotFoundError):
        tf.io.gfile.GFile(f"{bucket}/a/large.txt").read()


def test_beam_writes_renames_matches_and_deletes(bucket, object_store):
    names = [f"{bucket}/a/{number}.txt" for number in range(3)]
    for name in names:
        with FileSystems.create(name) as file:
            file.write(name.encode())
    targets = [name.replace("/a/", "/ö/") for name in names]
    FileSystems.rename(names, targets)
    assert object_store.keys(bucket) == ["ö/0.txt", "ö/1.txt", "ö/2.txt"]
    (matched,) = FileSystems.match([f"{bucket}/ö/*"])
    assert [file.path for file in matched.metadata_list] == targets
    with FileSystems.open(targets[1]) as file:
        assert file.read() == names[1].encode()
    FileSystems.delete(targets[:2])
    assert object_store.keys(bucket) == ["ö/2.txt"]


def test_failed_part_of_a_batch_does_not_fail_the_others(bucket, object_store):
    object_store.write(f"{bucket}/a")
    sources = [f"{bucket}/missing", f"{bucket}/a"]
    with pytest.raises(BeamIOError, match=r"missing.*404"):
        FileSystems.rename(sources, [f"{bucket}/b", f"{bucket}/c"])
    assert object_store.keys(bucket) == ["c"]


def test_library_of_google_reads_and_writes(bucket, object_store):
    object_store.write(f"{bucket}/a/b.txt", "hello")
    library = storage.Client()
    blobs = list(library.list_blobs(bucket.removeprefix("gs://"), prefix="a/"))
    assert [blob.download_as_text() for blob in blobs] == ["hello"]
    blobs[0].bucket.blob("c").upload_from_string("new")
    assert object_store.read(f"{bucket}/c") == b"new"


@pytest.mark.nightly
def test_keys_are_those_of_all_pages(bucket, object_store):
    names = [f"{number:04}" for number in range(1100)]
    for name in names:
        object_store.write(f"{bucket}/many/{name}")
    assert object_store.keys(f"{bucket}/many/") == [f"many/{name}" for name in names]


@pytest.mark.parametrize("writes", [1, *map(nightly, (0, 2, 3))])
def test_requests_of_a_bucket_are_refused_from_a_write_on(bucket, object_store, writes):
    object_store.write(f"{bucket}/before", "0")
    object_store.refuse_after(bucket, writes)
    written = [str(number) for number in range(writes)]
    for name in written:
        write(f"{bucket}/{name}", "hello")
    with pytest.raises(tf.errors.PermissionDeniedError):
        write(f"{bucket}/refused", "hello")
    with pytest.raises(tf.errors.PermissionDeniedError):
        tf.io.gfile.GFile(f"{bucket}/before").read()
    other = object_store.new_bucket()
    write(f"{other}/a", "hello")
    assert object_store.keys(other) == ["a"]
    object_store.accept_all()
    assert object_store.keys(bucket) == [*written, "before"]
    write(f"{bucket}/after", "hello")


def test_rename_that_is_refused_in_the_middle(bucket, object_store):
    for name in ("a", "b"):
        object_store.write(f"{bucket}/old/{name}")
    object_store.refuse_after(bucket, 3)  # copy, delete, copy
    with pytest.raises(tf.errors.PermissionDeniedError):
        tf.io.gfile.rename(f"{bucket}/old", f"{bucket}/new")
    object_store.accept_all()
    assert object_store.keys(bucket) == ["new/a", "new/b", "old/b"]


def test_batch_is_refused_from_a_write_on(bucket, object_store):
    for name in ("a", "b"):
        object_store.write(f"{bucket}/old/{name}")
    object_store.refuse_after(bucket, 1)
    with pytest.raises(BeamIOError, match="403"):
        FileSystems.rename(
            [f"{bucket}/old/a", f"{bucket}/old/b"],
            [f"{bucket}/new/a", f"{bucket}/new/b"],
        )
    object_store.accept_all()
    assert object_store.keys(bucket) == ["new/a", "old/a", "old/b"]


@pytest.mark.parametrize("environment", ["", "true"])
def test_missing_wheel_skips_except_in_ci(monkeypatch, environment):
    monkeypatch.setattr(client, "WHEEL", "no_such_wheel")
    monkeypatch.setenv(fixtures.MUST_NOT_SKIP, environment)
    outcome = pytest.fail.Exception if environment else pytest.skip.Exception
    with pytest.raises(outcome, match="no-such-wheel is not installed"):
        next(fixtures.object_store.__wrapped__())


USE_AND_WAIT = """
import time
from tests.object_store.client import start
with start() as store:
    print(store.new_bucket(), flush=True)
    time.sleep(600)
"""


@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize("how", [signal.SIGKILL, nightly(signal.SIGINT)])
def test_processes_end_with_their_user(how):
    command = [sys.executable, "-c", USE_AND_WAIT]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as user:
        assert user.stdout.readline() == b"gs://bucket-1\n"
        processes = psutil.Process(user.pid).children(recursive=True)
        assert len(processes) == 2
        user.send_signal(how)
    wait_until(lambda: not any(map(is_alive, processes)))


@pytest.mark.nightly
def test_emulator_ends_with_a_server_that_is_killed(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # the server leaves its files
    before = set(psutil.Process().children(recursive=True))
    with client.start() as store:
        (server,) = set(psutil.Process().children()) - before
        (emulator,) = server.children()
        server.kill()
        emulator.wait(10)
        with pytest.raises(OSError, match="refused"):
            store.new_bucket()


@pytest.mark.parametrize("kind", [500, "cut"])
def test_requests_that_fail_from_one_on_are_an_error(bucket, object_store, kind):
    write(f"{bucket}/a", "hello")
    object_store.fail(bucket, kind, first=3, times=None)
    assert tf.io.gfile.exists(f"{bucket}/b") is False  # two requests
    with pytest.raises(tf.errors.AbortedError, match="All 10 retry attempts failed"):
        tf.io.gfile.GFile(f"{bucket}/a", "rb").read(9)
    object_store.accept_all()
    assert object_store.read(f"{bucket}/a") == b"hello"


@pytest.mark.parametrize("kind", [429, 503, "cut"])
def test_request_that_fails_once_is_sent_again(bucket, object_store, kind):
    for first in (1, 2):  # whether the object was written or not
        object_store.fail(bucket, kind, first)
        write(f"{bucket}/a", f"{kind} {first}")
        assert len(object_store.accept_all()) > 2
        assert object_store.read(f"{bucket}/a") == f"{kind} {first}".encode()
    object_store.fail(bucket, kind)
    assert tf.io.gfile.GFile(f"{bucket}/a", "rb").read(99) == f"{kind} 2".encode()
    requests = object_store.accept_all()
    assert len(requests) > 1
    assert requests[0] == requests[1]


def test_short_response_looks_whole(bucket, object_store):
    object_store.write(f"{bucket}/a", b"0123456789")
    object_store.fail(bucket, "short")
    assert object_store.read(f"{bucket}/a") == b"01234"
    assert object_store.read(f"{bucket}/a") == b"0123456789"


def test_library_of_google_sends_a_failed_request_again(bucket, object_store):
    object_store.write(f"{bucket}/a", "hello")
    blob = storage.Client().bucket(bucket.removeprefix("gs://")).blob("a")
    retry = DEFAULT_RETRY.with_delay(initial=0.01)
    for kind in (429, "cut"):
        # Newer versions of the library ask for the bucket at the same time.
        object_store.fail(bucket, kind, only_reads=True)
        assert blob.download_as_bytes(retry=retry) == b"hello"
        assert len(object_store.accept_all()) == 2
