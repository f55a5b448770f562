"""Which versions count as pushed, on a filesystem and on an object store."""

import hashlib
import json

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


# Four copies, four objects of a rename, the manifest.
@pytest.mark.parametrize("writes", range(2 * len(FILES) + 1))
def test_push_killed_on_an_object_store_leaves_no_version_and_a_retry_completes(
    bucket, model, writes
):
    bucket.writes_left = writes
    with pytest.raises(Killed):
        versions.push(str(model), SERVING, 7)
    bucket.writes_left = None
    is_whole = writes == 2 * len(FILES)  # all but the manifest
    assert versions.list_versions(SERVING) == ([7] if is_whole else [])

    retry = versions.choose_version(SERVING, str(model))
    assert retry == 7 if is_whole else retry > 7
    versions.push(str(model), SERVING, retry)
    assert versions.list_versions(SERVING) == [retry]
    assert {name.removeprefix(f"{SERVING}/") for name in bucket.objects} == {
        f"{retry}/{name}" for name in [*FILES, "manifest.json"]
    }


def test_retry_with_the_same_version_completes_it(bucket, model):
    bucket.writes_left = len(FILES) + 2  # two objects of the rename
    with pytest.raises(Killed):
        versions.push(str(model), SERVING, 7)
    bucket.writes_left = None
    versions.push(str(model), SERVING, 7)
    assert versions.list_versions(SERVING) == [7]
    assert bucket.objects[f"{SERVING}/7/variables/variables.index"] == b"index"


def test_version_that_lost_a_file_does_not_count(model, tmp_path):
    for version in (7, 8):
        versions.push(str(model), str(tmp_path / "serving"), version)
    (tmp_path / "serving" / "8" / "variables" / "variables.index").unlink()
    assert versions.list_versions(str(tmp_path / "serving")) == [7]


def test_version_of_an_earlier_release_has_no_manifest_and_counts(tmp_path):
    write_model(tmp_path / "serving" / "7")
    assert versions.list_versions(str(tmp_path / "serving")) == [7]


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
    with pytest.raises(versions.VersionError, match=r"saved_model\.pb differs"):
        versions.push(str(model), str(tmp_path / "serving"), 7)
