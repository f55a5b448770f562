"""Files that appear complete, on a file system and on an object store."""

import contextlib
import json
import math
import re
import shutil
import stat

import pytest
import tensorflow as tf

from contracts.storage import files
from tests.refusals import refused

MISSING = "E-record-damaged"
REWRITE = re.compile("delete the directory of that output")


@pytest.fixture(params=["local", "remote"])
def directory(request, tmp_path):
    if request.param == "local":
        return str(tmp_path)
    return f"{request.getfixturevalue('bucket')}/files"


def test_json_holds_null_where_a_metric_is_not_finite(directory):
    path = f"{directory}/records/metrics.json"
    files.write_json(path, {"auc": math.nan, "steps": [1, math.inf], "f1": 0.5})
    assert files.read_json(path) == {"auc": None, "steps": [1, None], "f1": 0.5}


def test_missing_json_is_none(directory):
    assert files.read_json(f"{directory}/absent.json") is None


def test_copy_replaces_an_older_file(directory):
    files.write(f"{directory}/source", b"new")
    files.write(f"{directory}/copies/1", "old")
    files.copy(f"{directory}/source", f"{directory}/copies/1")
    assert tf.io.gfile.GFile(f"{directory}/copies/1").read() == "new"


def test_file_in_the_working_directory_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.write("record", "content")
    assert files.list_names(str(tmp_path)) == {"record"}


def test_full_disk_names_the_file(monkeypatch):
    monkeypatch.setattr(files, "_renamed_when_complete", contextlib.nullcontext)
    with pytest.raises(OSError, match=r"No space left on device: ./dev/full"):
        files.write("/dev/full", "content", create_directory=False)


def test_copy_has_the_permissions_of_the_source(tmp_path):
    (tmp_path / "private").write_text("a secret")
    (tmp_path / "private").chmod(0o600)
    files.copy(str(tmp_path / "private"), str(tmp_path / "copies" / "private"))
    assert stat.S_IMODE((tmp_path / "copies" / "private").stat().st_mode) == 0o600


def test_link_that_leads_nowhere_is_listed(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    assert files.list_names(str(tmp_path)) == {"loop", "folder"}
    assert files.list_directories(str(tmp_path)) == {"folder"}


def test_failed_write_leaves_the_older_file_and_no_other(directory, monkeypatch):
    files.write(f"{directory}/run/record", "old")

    def fail(*_, **__):
        raise tf.errors.UnavailableError(None, None, "503")

    monkeypatch.setattr(files, "rename", fail)
    with pytest.raises(tf.errors.UnavailableError):
        files.write(f"{directory}/run/record", "new")
    assert tf.io.gfile.GFile(f"{directory}/run/record").read() == "old"
    assert tf.io.gfile.listdir(f"{directory}/run") == ["record"]


def test_file_that_disappears_while_it_is_replaced_is_written(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("before")
    monkeypatch.setattr(shutil, "copymode", lambda *_: path.unlink() or path.stat())
    files.write(str(path), "after", create_directory=False)
    assert path.read_text() == "after"


def test_directory_is_copied_with_all_its_files(directory):
    for name in ("a", "b/c", "b/d/e"):
        files.write(f"{directory}/source/{name}", name)
    files.write(f"{directory}/copy/older", "")
    files.copy_directory(f"{directory}/source", f"{directory}/copy")
    assert files.list_files(f"{directory}/copy") == ["a", "b/c", "b/d/e"]
    assert tf.io.gfile.GFile(f"{directory}/copy/b/d/e").read() == "b/d/e"


def test_records_of_a_directory_are_listed_without_other_files(directory):
    names = ("1.gz", "0.gz", "_locations.jsonl", ".incomplete-2", "beam-temp-a-3/4.gz")
    for name in names:
        files.write(f"{directory}/train/{name}", name)
    records = files.list_records([f"{directory}/train/*", f"{directory}/eval/*"])
    assert records == [f"{directory}/train/0.gz", f"{directory}/train/1.gz"]
    with refused(MISSING, setting=f"{directory}/eval/*", advice=REWRITE):
        files.list_records([f"{directory}/eval/*"])


def test_missing_shard_is_refused_unless_the_pattern_leaves_it_out(directory):
    for number in (0, 2):
        files.write(f"{directory}/train/data-0000{number}-of-00003.gz", "")
    files.write(f"{directory}/train/data-0-of-1.gz", "")
    missing = f"{directory}/train/data-00001-of-00003.gz"
    with refused(MISSING, files.MissingRecordsError, setting=missing, advice=REWRITE):
        files.list_records([f"{directory}/train/*"])
    pattern = f"{directory}/train/data-*[02]-of-*3.gz"
    assert len(files.list_records([pattern])) == 2


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["t-1-of-3", "t-2-of-3", "t-3-of-3"], None),
        ([f"t-{n}-of-12" for n in range(12)], None),
        ([f"t-{n}-of-12" for n in range(12) if n != 4], "t-4-of-12"),
        (["t-01-of-03", "t-03-of-03"], "t-02-of-03"),
    ],
)
def test_shards_are_counted_from_0_or_1_with_or_without_zeros(names, missing):
    if missing is None:
        files.refuse_missing_shards(names, ["*"])
        return
    with refused(MISSING, files.MissingRecordsError, setting=missing):
        files.refuse_missing_shards(names, ["*"])


def test_directory_that_disappears_while_it_is_listed_is_empty(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "is_directory", lambda _: True)
    assert files.list_names(f"{tmp_path}/absent") == set()


def test_remote_file_needs_tensorflow(monkeypatch):
    monkeypatch.setattr(files, "_registered", [])
    for use in (files.read, files.exists, files.make_directory, files.open_binary):
        with refused("E-storage-failed", setting=re.compile(r"^gs://b/\S*$")):
            use("gs://b/run/record.json")


def test_record_is_read_without_the_number_of_its_format(directory):
    path = f"{directory}/records/record.json"
    files.write_record(path, {"best": None})
    assert files.read_json(path) == {"format": 1, "best": None}
    assert files.read_record(path) == {"best": None}
    assert files.read_record(f"{directory}/absent.json") is None
    files.write_json(path, {"format": 2})
    with refused("E-file-format-other", setting=path, got="its format is 2"):
        files.read_record(path)


@pytest.mark.parametrize("link", ["version", "version/inside"])
def test_deletion_keeps_what_a_link_points_to(tmp_path, link):
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "folder" / "file").write_text("kept")
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(outside)
    files.delete_directory(str(tmp_path / "version"))
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "folder" / "file").read_text() == "kept"


def test_content_is_read_without_the_number_it_was_written_with():
    text = json.dumps(files.with_format({"id": "7"}))
    assert json.loads(text) == {"format": 1, "id": "7"}
    assert files.parse_record(text, "run.json") == {"id": "7"}


@pytest.mark.parametrize("content", [{"id": "7"}, ["id"], None])
def test_file_without_a_number_is_read(content):
    assert files.parse_record(json.dumps(content), "run.json") == content


@pytest.mark.parametrize("number", [0, 2, "1", None])
def test_unknown_number_is_refused_with_the_file_and_what_to_do(number):
    text = json.dumps({"format": number, "id": "7"})
    with refused(
        "E-file-format-other",
        files.FormatError,
        setting="/runs/run.json",
        got=f"its format is {number!r}",
        allowed="1, which this release reads",
    ):
        files.parse_record(text, "/runs/run.json")
