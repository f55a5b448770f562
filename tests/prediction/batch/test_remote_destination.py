"""A directory of predictions in a bucket, on an object store and on a file system."""

import contextlib
import itertools
import re
import time
from pathlib import Path

import pytest
from apache_beam.io.filesystem import BeamIOError

from contracts.versions import served_versions
from prediction.batch import destination
from tests.nightly import nightly
from tests.prediction.batch import buckets
from tests.prediction.batch.buckets import LocalBucketFileSystem
from tests.prediction.batch.conftest import begin_with_shard
from tests.prediction.batch.in_process import predict_files
from tests.refusals import refused

pytestmark = pytest.mark.slow

KILLED = "incomplete-0123456789ab"


@pytest.fixture
def local_bucket(tmp_path, monkeypatch):
    monkeypatch.setattr(LocalBucketFileSystem, "root", str(tmp_path / "bucket"))
    return buckets.LocalBucket(tmp_path / "bucket")


@pytest.fixture
def google_bucket(bucket, object_store):
    return buckets.GoogleBucket(bucket, object_store)


@pytest.fixture(params=[nightly("local"), "google"])
def remote(request):
    return request.getfixturevalue(f"{request.param}_bucket")


@pytest.fixture
def read_rows(tmp_path):
    """Returns a function that reads the rows of a bucket."""
    directory = tmp_path / "downloaded"
    directory.mkdir()
    return lambda remote: buckets.read_rows(remote, directory)


class ServerError(Exception):
    """An error of an object store, which is not an OSError."""


def fail(monkeypatch, method, path, times):
    """Makes a method of the local bucket fail some times for a path."""
    works, errors = getattr(LocalBucketFileSystem, method), [ServerError("503")] * times

    def call(self, argument, *arguments, **options):
        if errors and path in str(argument):
            raise errors.pop()
        return works(self, argument, *arguments, **options)

    monkeypatch.setattr(LocalBucketFileSystem, method, call)


def find_marker(remote):
    (marker,) = [name for name in remote.names() if "incomplete-" in name]
    return marker


def check_complete(model, source, remote, read_rows):
    """Predicts files of a bucket into it, and returns the summary."""
    for name in ("a.tsv", "b.tsv"):
        remote.write(f"in/{name}", Path(source).read_bytes())
    out = remote.url("out")
    predicted = predict_files(model, remote.url("in"), out)
    assert predicted.predicted == 6
    shard, summary = [name for name in remote.names() if name.startswith("out/")]
    assert re.fullmatch(r"out/predictions-[0-9a-f]{12}-00000-of-00001\.tsv", shard)
    assert summary == "out/summary.json"
    assert len(read_rows(remote)) == 6
    with refused("E-destination-exists", setting="destination"):
        predict_files(model, source, out)
    return predicted


def test_model_input_and_complete_directory_are_in_one_bucket(
    longer, source, google_bucket, read_rows
):
    model = google_bucket.url("serving")
    served_versions.push(f"{longer}/7", model, "7")
    summary = check_complete(model, source, google_bucket, read_rows)
    assert summary.model == f"{model}/7"


@pytest.mark.nightly
def test_directory_on_another_file_system_is_complete(
    longer, source, local_bucket, read_rows
):
    check_complete(longer, source, local_bucket, read_rows)


@pytest.mark.parametrize(
    "name", ["kept.txt", "predictions-of-march.tsv", "incomplete-notes.txt"]
)
def test_directory_with_other_files_is_refused(longer, source, remote, name):
    remote.write(f"out/{name}", b"kept")
    got = f"{remote.url('out')} has {remote.url('out')}/{name}"
    with refused("E-destination-exists", setting="destination", got=got):
        predict_files(longer, source, remote.url("out"))
    assert remote.read(f"out/{name}") == b"kept"


def test_second_prediction_is_refused_and_harms_nothing(longer, source, remote):
    target = begin_with_shard(remote.url("out"))
    with refused("E-output-in-use", setting="destination"):
        predict_files(longer, source, remote.url("out"))
    target.finish(b"{}")
    shard, summary = remote.names()
    assert remote.read(shard) == b"left\n"
    assert summary == "out/summary.json"


def test_files_of_a_killed_prediction_are_deleted(longer, source, remote, monkeypatch):
    remote.write(f"out/{KILLED}")
    remote.write("out/predictions-0123456789ab-00000-of-00002.tsv")
    advice = re.compile("if that prediction was killed")
    with refused("E-output-in-use", setting="destination", advice=advice):
        predict_files(longer, source, remote.url("out"))
    monkeypatch.setattr(destination, "_STALE_SECONDS", 0.5)
    time.sleep(0.6)
    begin_with_shard(remote.url("out")).finish(b"{}")
    assert not [name for name in remote.names() if "0123456789ab" in name]
    assert len(remote.names()) == 2


@pytest.mark.nightly
def test_prediction_that_was_killed_at_any_write_has_no_summary_or_all_rows(
    longer, source, google_bucket, bucket, object_store, read_rows, monkeypatch
):
    monkeypatch.setattr(destination, "_STALE_SECONDS", 0.0)
    for writes in itertools.count(0, 2):
        object_store.refuse_after(bucket, writes)
        # Of Beam, of Google's library or ours; and each deletes the files of the last.
        with contextlib.suppress(Exception):
            predict_files(longer, source, google_bucket.url("out"))
        object_store.accept_all()
        if "out/summary.json" in google_bucket.names():
            break
        assert writes == 0 or find_marker(google_bucket)
    assert writes > 6
    assert len(read_rows(google_bucket)) == 3


def wait_for_beat(remote):
    marker = find_marker(remote)
    before, end = remote.updated(marker), time.monotonic() + 60
    while remote.updated(marker) == before and time.monotonic() < end:
        time.sleep(0.01)
    assert remote.updated(marker) > before


def test_marker_is_rewritten_while_a_prediction_runs(remote, monkeypatch):
    monkeypatch.setattr(destination, "_BEAT_SECONDS", 0.01)
    target = begin_with_shard(remote.url("out"))
    wait_for_beat(remote)
    target.finish(b"{}")
    assert not [name for name in remote.names() if "incomplete-" in name]


def test_marker_is_rewritten_after_a_failed_request(local_bucket, monkeypatch):
    monkeypatch.setattr(destination, "_BEAT_SECONDS", 0.01)
    fail(monkeypatch, "exists", "incomplete-", times=1)
    target = destination.create("bucket://out")
    target.begin()
    wait_for_beat(local_bucket)
    target.abandon()


def test_failed_start_leaves_no_files(local_bucket, monkeypatch):
    target = destination.create("bucket://out")
    fail(monkeypatch, "_list", "bucket://out", times=1)
    with pytest.raises(BeamIOError, match="503"):
        target.begin()
    assert local_bucket.names() == []


def test_summary_that_fails_once_is_written(local_bucket, monkeypatch):
    target = begin_with_shard(local_bucket.url("out"))
    fail(monkeypatch, "create", "summary.json", times=1)
    target.finish(b"{}")
    shard, summary = local_bucket.names()
    assert shard.endswith(".tsv")
    assert local_bucket.read(summary) == b"{}"


def check_results_are_reported(remote, target, error):
    """Finishes in a bucket that fails; returns the name of the marker."""
    marker = f"out/incomplete{target.suffix}"
    fields = {
        "got": re.compile(f"{error}.*; its files with {target.suffix} in their names"),
        "advice": re.compile(f"delete the marker {remote.url(marker)}:"),
    }
    with refused("E-storage-failed", setting="destination", **fields):
        target.finish(b"{}")
    return marker


def check_results_are_kept(remote, marker):
    remote.delete(marker)
    with refused("E-destination-exists", setting="destination"):
        destination.create(remote.url("out"))
    (shard,) = [name for name in remote.names() if "predictions-" in name]
    assert remote.read(shard) == b"left\n"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("exists", "incomplete-"),
        ("create", "summary.json"),
        ("delete", "incomplete-"),
    ],
)
def test_results_are_kept_if_a_request_fails_at_the_end(
    local_bucket, monkeypatch, method, path
):
    target = begin_with_shard(local_bucket.url("out"))
    fail(monkeypatch, method, path, times=2)
    marker = check_results_are_reported(local_bucket, target, "503")
    check_results_are_kept(local_bucket, marker)


@pytest.mark.parametrize("writes", [0, 1], ids=["the summary", "the marker"])
def test_results_are_kept_if_the_bucket_refuses_at_the_end(
    google_bucket, bucket, object_store, writes
):
    target = begin_with_shard(google_bucket.url("out"))
    object_store.refuse_after(bucket, writes)
    marker = check_results_are_reported(google_bucket, target, "403")
    object_store.accept_all()
    check_results_are_kept(google_bucket, marker)


def test_prediction_whose_marker_was_deleted_publishes_nothing(remote):
    target = begin_with_shard(remote.url("out"))
    remote.delete(find_marker(remote))
    remote.write("out/summary.json", b"of the other")
    with refused("E-output-in-use", setting="destination"):
        target.finish(b"{}")
    assert remote.names() == ["out/summary.json"]
    assert remote.read("out/summary.json") == b"of the other"
