"""The directory of predictions appears complete, and keeps existing files."""

import os
import re
import shutil
import time
from pathlib import Path

import pytest
from apache_beam.io import localfilesystem
from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.io.filesystems import FileSystems

from pipeline.config.errors import UsageError
from pipeline.prediction.batch import destination, execution, job, predict_files
from tests.pipeline.prediction.batch.conftest import read_shards, write_rows

pytestmark = pytest.mark.slow


class Bucket(localfilesystem.LocalFileSystem):
    """A remote file system of Beam, `bucket://`, on a local directory."""

    root = ""

    @classmethod
    def scheme(cls):
        return "bucket"

    def _local(self, path):
        return f"{self.root}/{path.removeprefix('bucket://')}"

    def join(self, base, *parts):
        return "/".join([base.rstrip("/"), *parts])

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def mkdirs(self, path):
        super().mkdirs(self._local(path))

    def _list(self, prefix):
        for path in sorted(Path(self.root).rglob("*")):
            name = f"bucket://{path.relative_to(self.root)}"
            if path.is_file() and name.startswith(prefix):
                stat = path.stat()
                yield FileMetadata(name, stat.st_size, stat.st_mtime)

    def _path_open(self, path, *args, **kwargs):
        return super()._path_open(self._local(path), *args, **kwargs)

    def create(self, path, *args, **kwargs):
        Path(self._local(path)).parent.mkdir(parents=True, exist_ok=True)
        return self._path_open(path, "wb", *args, **kwargs)

    def rename(self, sources, targets):
        super().rename(
            *([self._local(p) for p in paths] for paths in (sources, targets))
        )

    def exists(self, path):
        return os.path.isfile(self._local(path))

    def has_dirs(self):
        return False

    def metadata(self, path):
        return FileMetadata(path, os.path.getsize(self._local(path)))

    def delete(self, paths):
        for path in map(self._local, paths):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    monkeypatch.setattr(Bucket, "root", str(tmp_path / "bucket"))
    return tmp_path / "bucket"


class ServerError(Exception):
    """An error of an object store, which is not an OSError."""


def fail(monkeypatch, method, path, times):
    """Makes a method of the bucket fail some times for a path."""
    works, errors = getattr(Bucket, method), [ServerError("503")] * times

    def call(self, argument, *arguments, **options):
        if errors and path in str(argument):
            raise errors.pop()
        return works(self, argument, *arguments, **options)

    monkeypatch.setattr(Bucket, method, call)


@pytest.fixture
def source(tmp_path):
    return str(write_rows(tmp_path / "in.tsv", [{"left": "a", "right": ""}] * 3))


def test_output_that_beam_takes_for_a_pattern_is_refused(longer, source, tmp_path):
    with pytest.raises(UsageError, match=r"Beam takes \[ and \] in the path"):
        predict_files(longer, source, str(tmp_path / "out[1]"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


def test_existing_output_is_refused_and_kept(longer, source, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept.txt").write_text("kept")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UsageError, match=r"out is not new: it has kept\.txt\. Name a"):
        predict_files(longer, source, str(tmp_path / "out"))
    with pytest.raises(UsageError, match="file is not new"):
        predict_files(longer, source, str(tmp_path / "file"))
    assert (tmp_path / "out" / "kept.txt").read_text() == "kept"


@pytest.mark.parametrize("working", ["out/.incomplete", "out.incomplete"])
def test_empty_directory_is_filled_and_files_of_a_killed_run_are_deleted(
    longer, source, tmp_path, working
):
    (tmp_path / "out").mkdir()
    left = tmp_path / working / "predictions-00007-of-00009.tsv"
    left.parent.mkdir()
    left.write_text("left\n")
    assert predict_files(longer, source, f"{tmp_path}/out/").predicted == 3
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "predictions-00000-of-00001.tsv",
        "summary.json",
    ]
    assert not left.parent.exists()


def test_failure_leaves_nothing(longer, source, tmp_path, monkeypatch):
    monkeypatch.setattr(job._Serialize, "process", lambda *_: 1 / 0)
    with pytest.raises(Exception, match="division by zero"):
        predict_files(longer, source, str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


@pytest.fixture
def while_running(monkeypatch):
    """Returns a function that schedules a call for the end of a prediction."""
    run = execution.run

    def schedule(function):
        def run_and_call(*arguments):
            monkeypatch.setattr(execution, "run", run)
            run(*arguments)
            function()

        monkeypatch.setattr(execution, "run", run_and_call)

    return schedule


def test_link_and_mount_point_are_filled_and_not_replaced(longer, source, tmp_path):
    directory, link = tmp_path / "volume", tmp_path / "link"
    directory.mkdir()
    link.symlink_to(directory)
    before = directory.stat().st_ino
    assert predict_files(longer, source, str(link)).predicted == 3
    assert link.is_symlink()
    assert directory.stat().st_ino == before
    assert sorted(path.name for path in directory.iterdir()) == [
        "predictions-00000-of-00001.tsv",
        "summary.json",
    ]
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "new")
    assert predict_files(longer, source, str(dangling)).predicted == 3
    assert (tmp_path / "new" / "summary.json").is_file()


@pytest.mark.parametrize("exists", [False, True])
def test_second_prediction_into_a_directory_is_refused_and_harms_nothing(
    longer, source, tmp_path, while_running, exists
):
    if exists:
        (tmp_path / "out").mkdir()

    def predict_again():
        with pytest.raises(UsageError, match=f"in use by process {os.getpid()};"):
            predict_files(longer, source, str(tmp_path / "out"))

    while_running(predict_again)
    assert predict_files(longer, source, str(tmp_path / "out")).predicted == 3
    assert len(read_shards(tmp_path / "out", "tsv")) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tsv", "out"]


def test_results_are_kept_if_the_directory_cannot_be_written(
    longer, source, tmp_path, while_running
):
    def write_other_file():
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "kept.txt").write_text("kept")

    while_running(write_other_file)
    with pytest.raises(UsageError, match=r"predicted, but .*files from .*\.incomplete"):
        predict_files(longer, source, str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kept.txt"]
    assert len(read_shards(tmp_path / "out.incomplete", "tsv")) == 3
    assert (tmp_path / "out.incomplete" / "summary.json").is_file()


def test_failed_start_leaves_no_files(bucket, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out.incomplete").touch()
    with pytest.raises(FileExistsError):
        destination.create(f"{tmp_path}/out").begin()
    assert not [*(tmp_path / "out").iterdir()]
    target = destination.create("bucket://out")
    fail(monkeypatch, "_list", "bucket://out", times=1)
    with pytest.raises(BeamIOError, match="503"):
        target.begin()
    assert not [*(bucket / "out").iterdir()]


def test_remote_directory_is_complete_with_its_summary(longer, source, bucket):
    (bucket / "in").mkdir(parents=True)
    for name in ("a.tsv", "b.tsv"):
        shutil.copy(source, bucket / "in" / name)
    assert predict_files(longer, "bucket://in", "bucket://out").predicted == 6
    shard, summary = sorted(path.name for path in (bucket / "out").iterdir())
    assert re.fullmatch(r"predictions-[0-9a-f]{12}-00000-of-00001\.tsv", shard)
    assert summary == "summary.json"
    assert len(read_shards(bucket / "out", "tsv")) == 6
    with pytest.raises(UsageError, match="bucket://out is not new"):
        predict_files(longer, "bucket://in/*.tsv", "bucket://out")


@pytest.mark.parametrize(
    "name", ["kept.txt", "predictions-of-march.tsv", "incomplete-notes.txt"]
)
def test_remote_directory_with_other_files_is_refused(longer, source, bucket, name):
    (bucket / "out").mkdir(parents=True)
    (bucket / "out" / name).write_text("kept")
    with pytest.raises(UsageError, match=f"not new: it has bucket://out/{name}"):
        predict_files(longer, source, "bucket://out")
    assert (bucket / "out" / name).read_text() == "kept"


def test_second_prediction_into_a_remote_directory_is_refused_and_harms_nothing(
    longer, source, bucket, while_running
):
    def predict_again():
        with pytest.raises(
            UsageError, match="in use by another prediction: its marker"
        ):
            predict_files(longer, source, "bucket://out")

    while_running(predict_again)
    assert predict_files(longer, source, "bucket://out").predicted == 3
    assert len(read_shards(bucket / "out", "tsv")) == 3


def test_files_of_a_killed_prediction_in_a_bucket_are_deleted(longer, source, bucket):
    killed = bucket / "out" / "incomplete-0123456789ab"
    killed.parent.mkdir(parents=True)
    killed.touch()
    (bucket / "out" / "predictions-0123456789ab-00000-of-00002.tsv").touch()
    with pytest.raises(UsageError, match="If that prediction was killed"):
        predict_files(longer, source, "bucket://out")
    an_hour_ago = time.time() - 3600
    os.utime(killed, (an_hour_ago, an_hour_ago))
    assert predict_files(longer, source, "bucket://out").predicted == 3
    assert not [*killed.parent.glob("*0123456789ab*")]
    assert len(read_shards(bucket / "out", "tsv")) == 3


def test_marker_is_rewritten_while_a_prediction_runs(
    longer, source, bucket, while_running, monkeypatch
):
    monkeypatch.setattr(destination, "_BEAT_SECONDS", 0.01)

    def wait_for_beat():
        (marker,) = (bucket / "out").glob("incomplete-*")
        os.utime(marker, (0, 0))
        end = time.monotonic() + 60
        while marker.stat().st_mtime == 0 and time.monotonic() < end:
            time.sleep(0.01)
        assert marker.stat().st_mtime > 0

    while_running(wait_for_beat)
    predict_files(longer, source, "bucket://out")


def test_marker_is_rewritten_after_a_failed_request(bucket, monkeypatch):
    monkeypatch.setattr(destination, "_BEAT_SECONDS", 0.01)
    fail(monkeypatch, "exists", "incomplete-", times=1)
    target = destination.create("bucket://out")
    target.begin()
    (marker,) = (bucket / "out").glob("incomplete-*")
    os.utime(marker, (0, 0))
    end = time.monotonic() + 5
    while marker.stat().st_mtime == 0 and time.monotonic() < end:
        time.sleep(0.01)
    assert marker.stat().st_mtime > 0
    target.abandon()


def begin_with_shard():
    target = destination.create("bucket://out")
    target.begin()
    shard = f"{target.working}/predictions{target.suffix}-00000-of-00001.tsv"
    with FileSystems.create(shard) as file:
        file.write(b"left\n")
    return target


def test_summary_that_fails_once_is_written(bucket, monkeypatch):
    target = begin_with_shard()
    fail(monkeypatch, "create", "summary.json", times=1)
    target.finish(b"{}")
    shard, summary = sorted((bucket / "out").iterdir())
    assert (shard.suffix, summary.read_text()) == (".tsv", "{}")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("exists", "incomplete-"),
        ("create", "summary.json"),
        ("delete", "incomplete-"),
    ],
)
def test_results_in_a_bucket_are_kept_if_it_fails_at_the_end(
    bucket, monkeypatch, method, path
):
    target = begin_with_shard()
    fail(monkeypatch, method, path, times=2)
    with pytest.raises(UsageError, match=r"all rows are predicted, but .*503") as error:
        target.finish(b"{}")
    message = str(error.value)
    assert f"files with {target.suffix} in their names are complete" in message
    assert f"delete the marker bucket://out/incomplete{target.suffix}:" in message
    (bucket / "out" / f"incomplete{target.suffix}").unlink()
    with pytest.raises(UsageError, match="not new"):
        destination.create("bucket://out")
    (shard,) = (bucket / "out").glob("predictions-*")
    assert shard.read_text() == "left\n"


def test_prediction_whose_marker_was_deleted_publishes_nothing(
    longer, source, bucket, while_running
):
    def replace():
        (marker,) = (bucket / "out").glob("incomplete-*")
        marker.unlink()
        (bucket / "out" / "summary.json").write_text("of the other")

    while_running(replace)
    with pytest.raises(UsageError, match="taken over by another prediction"):
        predict_files(longer, source, "bucket://out")
    assert [path.name for path in (bucket / "out").iterdir()] == ["summary.json"]
    assert (bucket / "out" / "summary.json").read_text() == "of the other"
