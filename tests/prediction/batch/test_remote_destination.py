"""A directory of predictions in a bucket."""

import contextlib
import dataclasses
import itertools
import re
import time
from pathlib import Path

import pytest
from apache_beam.io.filesystems import FileSystems

from contracts.versions import served_versions
from prediction.batch import destination
from tests.object_store.client import ObjectStore
from tests.prediction.batch.conftest import begin_with_shard, read_shards
from tests.prediction.batch.in_process import predict_files
from tests.refusals import refused

pytestmark = pytest.mark.slow

KILLED = "incomplete-0123456789ab"


@dataclasses.dataclass
class Remote:
    """A bucket, whose objects are named without it."""

    bucket: str
    store: ObjectStore

    def url(self, name):
        return f"{self.bucket}/{name}"

    def names(self):
        return self.store.keys(self.bucket)

    def write(self, name, content=b""):
        self.store.write(self.url(name), content)

    def read(self, name):
        return self.store.read(self.url(name))

    def delete(self, name):
        self.store.delete(self.url(name))

    def updated(self, name):
        """Returns when an object was written."""
        (file,) = FileSystems.match([self.url(name)])[0].metadata_list
        return file.last_updated_in_seconds


@pytest.fixture
def remote(bucket, object_store):
    return Remote(bucket, object_store)


def count_rows(remote, directory):
    """Returns the number of predicted rows in a bucket."""
    directory.mkdir()
    for name in remote.names():
        (directory / Path(name).name).write_bytes(remote.read(name))
    return len(read_shards(directory, "tsv"))


def fail(monkeypatch, method, path, times):
    """Makes a method of Beam's file systems fail some times for a path."""
    works, errors = getattr(FileSystems, method), [ConnectionError("503")] * times

    def call(argument, *arguments, **options):
        if errors and path in str(argument):
            raise errors.pop()
        return works(argument, *arguments, **options)

    monkeypatch.setattr(FileSystems, method, call)


def find_marker(remote):
    (marker,) = [name for name in remote.names() if "incomplete-" in name]
    return marker


def test_model_input_and_complete_directory_are_in_one_bucket(
    longer, source, remote, tmp_path
):
    model, out = remote.url("serving"), remote.url("out")
    served_versions.push(f"{longer}/7", model, "7")
    for name in ("a.tsv", "b.tsv"):
        remote.write(f"in/{name}", Path(source).read_bytes())
    predicted = predict_files(model, remote.url("in"), out)
    assert (predicted.predicted, predicted.model) == (6, f"{model}/7")
    shard, summary = [name for name in remote.names() if name.startswith("out/")]
    assert re.fullmatch(r"out/predictions-[0-9a-f]{12}-00000-of-00001\.tsv", shard)
    assert summary == "out/summary.json"
    assert count_rows(remote, tmp_path / "downloaded") == 6
    with refused("E-destination-exists", setting="destination"):
        predict_files(model, source, out)


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
    monkeypatch.setattr(destination, "_STALE_SECONDS", 0.0)
    begin_with_shard(remote.url("out")).finish(b"{}")
    assert not [name for name in remote.names() if "0123456789ab" in name]
    assert len(remote.names()) == 2


@pytest.mark.nightly
def test_prediction_that_was_killed_at_any_write_has_no_summary_or_all_rows(
    longer, source, remote, tmp_path, monkeypatch
):
    monkeypatch.setattr(destination, "_STALE_SECONDS", 0.0)
    for writes in itertools.count(0, 2):
        remote.store.refuse_after(remote.bucket, writes)
        # Of Beam, of Google's library or ours; and each deletes the files of the last.
        with contextlib.suppress(Exception):
            predict_files(longer, source, remote.url("out"))
        remote.store.accept_all()
        if "out/summary.json" in remote.names():
            break
        assert writes == 0 or find_marker(remote)
    assert writes > 6
    assert count_rows(remote, tmp_path / "downloaded") == 3


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


def test_marker_is_rewritten_after_a_failed_request(remote, monkeypatch):
    monkeypatch.setattr(destination, "_BEAT_SECONDS", 0.01)
    fail(monkeypatch, "exists", "incomplete-", times=1)
    target = destination.create(remote.url("out"))
    target.begin()
    wait_for_beat(remote)
    target.abandon()


def test_failed_start_leaves_no_files(remote, monkeypatch):
    target = destination.create(remote.url("out"))
    fail(monkeypatch, "match", "/out/", times=1)
    with pytest.raises(ConnectionError, match="503"):
        target.begin()
    assert remote.names() == []


def test_summary_that_fails_once_is_written(remote, monkeypatch):
    target = begin_with_shard(remote.url("out"))
    fail(monkeypatch, "create", "summary.json", times=1)
    target.finish(b"{}")
    shard, summary = remote.names()
    assert shard.endswith(".tsv")
    assert remote.read(summary) == b"{}"


def finish_in_vain(remote, target, error):
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
    [("exists", "incomplete-"), ("create", "summary.json"), ("delete", "incomplete-")],
)
def test_results_are_kept_if_a_request_fails_at_the_end(
    remote, monkeypatch, method, path
):
    target = begin_with_shard(remote.url("out"))
    fail(monkeypatch, method, path, times=2)
    check_results_are_kept(remote, finish_in_vain(remote, target, "503"))


@pytest.mark.parametrize("writes", [0, 1], ids=["the summary", "the marker"])
def test_results_are_kept_if_the_bucket_refuses_at_the_end(remote, writes):
    target = begin_with_shard(remote.url("out"))
    remote.store.refuse_after(remote.bucket, writes)
    marker = finish_in_vain(remote, target, "403")
    remote.store.accept_all()
    check_results_are_kept(remote, marker)


def test_prediction_whose_marker_was_deleted_publishes_nothing(remote):
    target = begin_with_shard(remote.url("out"))
    remote.delete(find_marker(remote))
    remote.write("out/summary.json", b"of the other")
    with refused("E-output-in-use", setting="destination"):
        target.finish(b"{}")
    assert remote.names() == ["out/summary.json"]
    assert remote.read("out/summary.json") == b"of the other"
