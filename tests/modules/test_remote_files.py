"""TensorFlow's file systems, on an object store."""

import subprocess
import sys

import pytest
import tensorflow as tf

from contracts.storage import files
from modules import remote_files
from pipeline.config.paths import REPOSITORY


def test_writes_to_an_object_store_leave_no_directories(bucket, object_store):
    files.write(f"{bucket}/a/b", "c")
    files.make_directory(f"{bucket}/d")
    files.copy(f"{bucket}/a/b", f"{bucket}/e/f")
    assert object_store.keys(bucket) == ["a/b", "e/f"]


def test_markers_of_directories_are_deleted_up_to_the_root(bucket, object_store):
    for key in ("", "run/", "run/task/", "run/task/out/", "run/task/out/file"):
        object_store.write(f"{bucket}/root/{key}")
    remote_files.delete_directory_markers(f"{bucket}/root/run/task", f"{bucket}/root")
    assert object_store.keys(bucket) == ["root/", "root/run/task/out/file"]


def test_directory_of_a_storage_that_does_not_respond_is_not_empty(
    bucket, object_store
):
    files.write(f"{bucket}/run/a/b", "c")
    for look in (files.list_names, files.list_files, files.exists, files.is_directory):
        object_store.fail(bucket, 503, times=None)
        with pytest.raises(tf.errors.OpError, match="503"):
            look(f"{bucket}/run/a")
        object_store.accept_all()
    assert files.list_files(f"{bucket}/run") == ["a/b"]


def test_directory_that_disappears_while_it_is_listed_is_empty(bucket, monkeypatch):
    storage, was_there = remote_files.TensorFlowFiles, iter([True])
    works = storage.is_directory
    monkeypatch.setattr(
        storage,
        "is_directory",
        lambda self, path: next(was_there, False) or works(self, path),
    )
    assert files.list_names(f"{bucket}/absent") == set()


def test_file_and_directory_of_one_name_are_both_listed(bucket, object_store):
    for name in ("a", "a/b", "c"):
        object_store.write(f"{bucket}/run/{name}")
    assert files.list_names(f"{bucket}/run") == {"a", "c"}
    assert files.list_directories(f"{bucket}/run") == {"a"}


def test_list_of_a_bucket_has_no_request_for_each_name(bucket, object_store):
    requests = []
    for number in (1, 9):
        for name in range(number):
            object_store.write(f"{bucket}/{number}/{name}.txt")
        object_store.fail(bucket)
        assert len(files.list_files(f"{bucket}/{number}")) == number
        assert files.list_directories(f"{bucket}/{number}") == set()
        requests.append(len(object_store.accept_all()))
    assert requests[0] == requests[1]


@pytest.fixture
def without_pauses(monkeypatch):
    monkeypatch.setattr(remote_files, "_PAUSES", (0,) * 6)


@pytest.mark.usefixtures("without_pauses")
def test_truncated_responses_are_requested_again(bucket, object_store):
    content = b"0123456789" * 100
    object_store.write(f"{bucket}/a", content)
    for times in (1, 2):
        object_store.fail(bucket, "short", times=times, only_reads=True)
        assert files.read(f"{bucket}/a") == content
        object_store.fail(bucket, "short", times=times, only_reads=True)
        files.copy(f"{bucket}/a", f"{bucket}/b")
        assert object_store.read(f"{bucket}/b") == content


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize("only_reads", [True, False])
def test_file_of_which_only_a_part_arrives_is_not_read_or_copied(
    bucket, object_store, only_reads
):
    object_store.write(f"{bucket}/a", b"0123456789" * 100)
    for use in (files.read, lambda path: files.copy(path, f"{bucket}/b")):
        object_store.fail(bucket, "short", times=None, only_reads=only_reads)
        with pytest.raises(tf.errors.OpError):
            use(f"{bucket}/a")
        object_store.accept_all()
    assert object_store.keys(bucket) == ["a"]


def test_file_that_another_process_shortens_is_read(bucket, object_store):
    """TensorFlow has cached the size of the longer file, for 5 seconds."""
    files.write(f"{bucket}/a", b"0123456789")
    assert files.read(f"{bucket}/a") == b"0123456789"
    object_store.write(f"{bucket}/a", b"01")
    assert files.read(f"{bucket}/a") == b"01"


def test_file_that_another_process_makes_longer_is_copied(bucket, object_store):
    files.write(f"{bucket}/a", b"01")
    assert files.size(f"{bucket}/a") == 2
    object_store.write(f"{bucket}/a", b"0123456789")
    files.copy(f"{bucket}/a", f"{bucket}/b")
    assert object_store.read(f"{bucket}/b") == b"0123456789"


def test_file_that_is_deleted_after_it_was_read_is_copied(
    bucket, object_store, monkeypatch
):
    copy = tf.io.gfile.copy

    def copy_and_delete(source, destination, **options):
        copy(source, destination, **options)
        tf.io.gfile.remove(source)

    monkeypatch.setattr(tf.io.gfile, "copy", copy_and_delete)
    files.write(f"{bucket}/a", "content")
    files.copy(f"{bucket}/a", f"{bucket}/b")
    assert object_store.keys(bucket) == ["b"]


@pytest.mark.parametrize(
    "package",
    [
        pytest.param("components", marks=pytest.mark.slow),
        *("ingest.examples", "modules", "pipeline", "report"),
        *("prediction.batch", "prediction.saved_model"),
    ],
)
def test_process_that_imports_one_package_reads_remote_files(package):
    """A worker of Beam imports no other one first."""
    code = (
        f"import {package}\nfrom contracts.storage import files\n"
        "assert files._remote('gs://b/a')"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
