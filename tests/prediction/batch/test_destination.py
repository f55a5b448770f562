"""A local directory of predictions appears complete, and keeps existing files."""

import os
import re

import pytest

from prediction.batch import destination, execution, job
from tests.prediction.batch.conftest import begin_with_shard, read_shards
from tests.prediction.batch.in_process import predict_files
from tests.refusals import refused

pytestmark = pytest.mark.slow


def test_output_that_beam_takes_for_a_pattern_is_refused(longer, source, tmp_path):
    for name in ("out[1]", "out*", "out?"):
        with refused("E-path-pattern"):
            predict_files(longer, source, str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


def test_existing_output_is_refused_and_kept(longer, source, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept.txt").write_text("kept")
    (tmp_path / "file").write_text("kept")
    got = f"{tmp_path}/out has kept.txt"
    with refused("E-destination-exists", setting="destination", got=got):
        predict_files(longer, source, str(tmp_path / "out"))
    with refused("E-destination-exists", setting="destination"):
        predict_files(longer, source, str(tmp_path / "file"))
    assert (tmp_path / "out" / "kept.txt").read_text() == "kept"


def test_empty_directory_is_filled_and_files_of_killed_runs_are_deleted(tmp_path):
    (tmp_path / "out").mkdir()
    working = [tmp_path / "out" / ".incomplete", tmp_path / "out.incomplete"]
    for directory in working:
        directory.mkdir()
        (directory / "predictions-00007-of-00009.tsv").write_text("left\n")
    begin_with_shard(f"{tmp_path}/out/").finish(b"{}")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "predictions-00000-of-00001.tsv",
        "summary.json",
    ]
    assert not any(directory.exists() for directory in working)


def test_failure_leaves_nothing(longer, source, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "_serialize", lambda *_: 1 / 0)
    with pytest.raises(Exception, match="division by zero"):
        predict_files(longer, source, str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


def test_link_and_mount_point_are_filled_and_not_replaced(tmp_path):
    directory, link = tmp_path / "volume", tmp_path / "link"
    directory.mkdir()
    link.symlink_to(directory)
    before = directory.stat().st_ino
    begin_with_shard(str(link)).finish(b"{}")
    assert link.is_symlink()
    assert directory.stat().st_ino == before
    assert sorted(path.name for path in directory.iterdir()) == [
        "predictions-00000-of-00001.tsv",
        "summary.json",
    ]
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "new")
    begin_with_shard(str(dangling)).finish(b"{}")
    assert (tmp_path / "new" / "summary.json").is_file()


@pytest.mark.parametrize("exists", [False, True])
def test_second_prediction_into_a_directory_is_refused_and_harms_nothing(
    longer, source, tmp_path, exists
):
    directory = tmp_path / "out"
    if exists:
        directory.mkdir()
    target = begin_with_shard(str(directory))
    with refused("E-output-in-use", got=re.compile(f"process {os.getpid()}")):
        predict_files(longer, source, str(directory))
    target.finish(b"{}")
    assert (directory / "predictions-00000-of-00001.tsv").read_text() == "left\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tsv", "out"]


def test_results_are_kept_if_the_directory_cannot_be_written(
    longer, source, tmp_path, monkeypatch
):
    run = execution.run

    def run_and_write_other_file(*arguments):
        run(*arguments)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "kept.txt").write_text("kept")

    monkeypatch.setattr(execution, "run", run_and_write_other_file)
    advice = re.compile(r"move the files from .*\.incomplete")
    with refused("E-storage-failed", setting="destination", advice=advice):
        predict_files(longer, source, str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kept.txt"]
    assert len(read_shards(tmp_path / "out.incomplete", "tsv")) == 3
    assert (tmp_path / "out.incomplete" / "summary.json").is_file()


def test_failed_start_leaves_no_files(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out.incomplete").touch()
    with refused("E-storage-failed"):
        destination.create(f"{tmp_path}/out").begin()
    assert not [*(tmp_path / "out").iterdir()]
