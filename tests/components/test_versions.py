"""Which versions are complete, on a filesystem and on an object store."""

import hashlib
import json
import logging

import pytest

from components import versions
from tests.components.object_store import Killed, ObjectStore

SERVING = "bucket://models/serving"
FILES = {
    "fingerprint.pb": b"a",
    "saved_model.pb": b"graph",
    "variables/variables.data-00000-of-00001": b"weights",
    "variables/variables.index": b"index",
}


def listed(directory):
    return list(versions.list_versions(str(directory)))


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


@pytest.fixture
def bucket():
    ObjectStore.reset()
    yield ObjectStore
    ObjectStore.reset()


def write_model(directory):
    for name, content in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory


def test_manifest_has_size_and_hash_of_every_file(model, tmp_path):
    versions.push(str(model), str(tmp_path / "serving"), 7)
    manifest = json.loads((tmp_path / "serving" / "7" / "manifest.json").read_text())
    assert manifest["files"] == {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in FILES.items()
    }


# Four copies, the manifest, five objects of a rename.
@pytest.mark.parametrize("writes", range(2 * len(FILES) + 2))
def test_push_killed_on_an_object_store_leaves_no_version_and_a_retry_completes(
    bucket, model, writes
):
    bucket.writes_left = writes
    with pytest.raises(Killed):
        versions.push(str(model), SERVING, 7)
    bucket.writes_left = None
    assert listed(SERVING) == []

    retry = versions.choose_version(SERVING, str(model))
    assert retry > 7
    versions.push(str(model), SERVING, retry)
    assert listed(SERVING) == [retry]
    assert {name.removeprefix(f"{SERVING}/") for name in bucket.objects} == {
        f"{retry}/{name}" for name in [*FILES, "manifest.json"]
    }


def test_push_of_another_run_on_an_object_store_is_not_disturbed(bucket, model):
    """A killed push of an hour ago is deleted, a later one may still be running."""
    now = versions.choose_version(SERVING, str(model))
    hour_ago = now - versions._ABANDONED_SECONDS * 1000 - 1
    for version in (hour_ago, now):
        bucket.objects[f"{SERVING}/.{version}.incomplete/saved_model.pb"] = b"graph"
    versions.push(str(model), SERVING, now + 1)
    assert set(bucket.listdir(SERVING)) == {f".{now}.incomplete", str(now + 1)}


def test_retry_with_the_same_version_completes_it(bucket, model):
    bucket.writes_left = len(FILES) + 3  # two objects of the rename
    with pytest.raises(Killed):
        versions.push(str(model), SERVING, 7)
    bucket.writes_left = None
    versions.push(str(model), SERVING, 7)
    assert listed(SERVING) == [7]
    assert bucket.objects[f"{SERVING}/7/variables/variables.index"] == b"index"


def test_version_that_lost_a_file_does_not_count(model, tmp_path):
    for version in (7, 8):
        versions.push(str(model), str(tmp_path / "serving"), version)
    (tmp_path / "serving" / "8" / "variables" / "variables.index").unlink()
    assert listed(tmp_path / "serving") == [7]


@pytest.mark.parametrize("text", ["", "[]", '{"files": {"a": 1}}', '{"other": 1}'])
def test_version_whose_manifest_cannot_be_read_does_not_count(
    model, tmp_path, text, caplog
):
    versions.push(str(model), str(tmp_path / "serving"), 7)
    (tmp_path / "serving" / "7" / "manifest.json").write_text(text)
    with caplog.at_level(logging.WARNING, logger=versions.logger.name):
        assert listed(tmp_path / "serving") == []
    assert "serving/7 is incomplete and is skipped: manifest.json" in caplog.text


def test_complete_version_is_not_pushed_again(model, tmp_path, monkeypatch):
    versions.push(str(model), str(tmp_path / "serving"), 7)
    monkeypatch.delattr(versions.io_utils, "copy_dir")
    versions.push(str(model), str(tmp_path / "serving"), 7)
    assert listed(tmp_path / "serving") == [7]


def test_version_of_an_earlier_release_has_no_manifest_and_counts(tmp_path):
    write_model(tmp_path / "serving" / "7")
    assert listed(tmp_path / "serving") == [7]


def test_damaged_file_is_named_when_a_version_is_copied(model, tmp_path):
    versions.push(str(model), str(tmp_path / "serving"), 7)
    path = tmp_path / "serving" / "7" / "saved_model.pb"
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(
        versions.VersionError, match=r"serving/7 is damaged: saved_model\.pb differs"
    ):
        versions.copy(str(path.parent), str(tmp_path / "copy"))


def test_model_that_changes_while_it_is_copied_is_not_pushed(
    model, tmp_path, monkeypatch
):
    copy = versions.io_utils.copy_dir

    def copy_and_truncate(source, target):
        copy(source, target)
        open(f"{target}/saved_model.pb", "wb").close()

    monkeypatch.setattr(versions.io_utils, "copy_dir", copy_and_truncate)
    with pytest.raises(versions.VersionError, match=r"saved_model\.pb has 0 bytes"):
        versions.push(str(model), str(tmp_path / "serving"), 7)
    assert listed(tmp_path / "serving") == []
