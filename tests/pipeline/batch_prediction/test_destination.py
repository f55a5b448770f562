"""The directory of predictions appears whole, and loses nothing that is there."""

import os
import shutil
from pathlib import Path

import pytest
from apache_beam.io import localfilesystem
from apache_beam.io.filesystem import FileMetadata

from pipeline.batch_prediction import predict_files
from pipeline.errors import UsageError
from tests.pipeline.batch_prediction.conftest import read_shards, write_rows


class Bucket(localfilesystem.LocalFileSystem):
    """Keeps `bucket://` in a local directory, for what Beam does on a remote one."""

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
                yield FileMetadata(name, path.stat().st_size)

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


@pytest.fixture
def source(tmp_path):
    return str(write_rows(tmp_path / "in.tsv", [{"left": "a", "right": ""}] * 3))


def test_existing_output_is_refused_and_kept(longer, source, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept.txt").write_text("kept")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UsageError, match=r"out is not new: it has kept\.txt\. Name a"):
        predict_files(longer, source, str(tmp_path / "out"))
    with pytest.raises(UsageError, match="file is not new"):
        predict_files(longer, source, str(tmp_path / "file"))
    assert (tmp_path / "out" / "kept.txt").read_text() == "kept"


def test_empty_directory_is_filled_and_what_a_killed_run_left_is_gone(
    longer, source, tmp_path
):
    (tmp_path / "out").mkdir()
    left = tmp_path / "out.incomplete" / "predictions-00007-of-00009.tsv"
    left.parent.mkdir()
    left.write_text("left\n")
    assert predict_files(longer, source, f"{tmp_path}/out/").predicted == 3
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "predictions-00000-of-00001.tsv",
        "summary.json",
    ]
    assert not left.parent.exists()


def test_failure_leaves_nothing(longer, source, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "pipeline.batch_prediction.sinks.Table.encode", lambda *_: 1 / 0, raising=True
    )
    # The rows that are looked at beforehand are not encoded.
    monkeypatch.setattr("pipeline.batch_prediction.run._FIRST_ROWS", 0)
    with pytest.raises(Exception, match="division by zero"):
        predict_files(longer, source, str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


def test_remote_directory_is_whole_with_its_summary(longer, source, bucket):
    (bucket / "in").mkdir(parents=True)
    for name in ("a.tsv", "b.tsv"):
        shutil.copy(source, bucket / "in" / name)
    left = bucket / "out" / "predictions-00007-of-00009.tsv"
    left.parent.mkdir()
    left.write_text("of a run that was killed")
    assert predict_files(longer, "bucket://in", "bucket://out").predicted == 6
    assert len(read_shards(bucket / "out", "tsv")) == 6
    assert (bucket / "out" / "summary.json").is_file()
    assert not left.exists()
    with pytest.raises(UsageError, match="bucket://out is not new"):
        predict_files(longer, "bucket://in/*.tsv", "bucket://out")


def test_remote_directory_with_other_files_is_refused(longer, source, bucket):
    (bucket / "out").mkdir(parents=True)
    (bucket / "out" / "kept.txt").write_text("kept")
    with pytest.raises(UsageError, match=r"not new: it has bucket://out/kept\.txt"):
        predict_files(longer, source, "bucket://out")
    assert (bucket / "out" / "kept.txt").read_text() == "kept"
