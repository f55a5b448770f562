"""Which versions are complete, on a filesystem and on an object store."""

import hashlib
import itertools
import json
import logging

import pytest
import tensorflow as tf

from components import versions

FILES = {
    "fingerprint.pb": b"a",
    "saved_model.pb": b"graph",
    "variables/variables.data-00000-of-00001": b"weights",
    "variables/variables.index": b"index",
}
FILES_OF_SMALL = ("fingerprint.pb", "variables/variables.index")


def listed(directory):
    return list(versions.list_versions(str(directory)))


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


@pytest.fixture
def small_model(tmp_path):
    """A model of two files: a push of it makes few requests."""
    return write_model(tmp_path / "model", FILES_OF_SMALL)


def write_model(directory, names=tuple(FILES)):
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(FILES[name])
    return directory


def test_manifest_has_size_and_hash_of_every_file(model, tmp_path):
    versions.push(str(model), str(tmp_path / "serving"), 7)
    manifest = json.loads((tmp_path / "serving" / "7" / "manifest.json").read_text())
    assert manifest["files"] == {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in FILES.items()
    }


@pytest.fixture
def serving(bucket):
    return f"{bucket}/models/serving"


def relative_keys(object_store, directory):
    """Returns the keys below a directory, relative to it."""
    prefix = directory.split("/", 3)[3] + "/"
    keys = object_store.keys(f"{directory}/")
    return {key.removeprefix(prefix) for key in keys}


def kill_at_each_write(object_store, bucket, model):
    """Kills a push at its first write, at its second, and so on.

    Yields the directory of versions after each kill, a new one.
    """
    for writes in itertools.count():
        serving = f"{bucket}/{writes}"
        object_store.refuse_after(bucket, writes)
        try:
            versions.push(str(model), serving, 7)
        except tf.errors.PermissionDeniedError:
            object_store.accept_all()
            yield serving
        else:
            break
    assert listed(serving) == [7]
    assert writes > 3 * len(FILES_OF_SMALL)  # each is written, copied and deleted


@pytest.mark.slow
def test_killed_push_to_an_object_store_leaves_no_version_and_a_retry_completes(
    object_store, bucket, small_model
):
    for serving in kill_at_each_write(object_store, bucket, small_model):
        assert listed(serving) == []
        retry = versions.choose_version(serving, str(small_model))
        assert retry > 7
        versions.push(str(small_model), serving, retry)
        assert listed(serving) == [retry]
        assert relative_keys(object_store, serving) == {
            f"{retry}/{name}" for name in [*FILES_OF_SMALL, "manifest.json"]
        }


@pytest.mark.slow
def test_retry_with_the_same_version_completes_it(object_store, bucket, small_model):
    for serving in kill_at_each_write(object_store, bucket, small_model):
        versions.push(str(small_model), serving, 7)
        assert listed(serving) == [7]
        assert relative_keys(object_store, serving) == {
            f"7/{name}" for name in [*FILES_OF_SMALL, "manifest.json"]
        }
        assert object_store.read(f"{serving}/7/variables/variables.index") == b"index"


def test_push_of_another_run_on_an_object_store_is_not_disturbed(
    object_store, serving, model
):
    """A killed push of an hour ago is deleted, a later one may still be running."""
    now = versions.choose_version(serving, str(model))
    hour_ago = now - versions._ABANDONED_SECONDS * 1000 - 1
    for version in (hour_ago, now):
        object_store.write(f"{serving}/.{version}.incomplete/saved_model.pb", "graph")
    versions.push(str(model), serving, now + 1)
    names = tf.io.gfile.listdir(serving)
    assert set(names) == {f".{now}.incomplete/", f"{now + 1}/"}


def test_version_on_an_object_store_that_lost_a_file_does_not_count(
    object_store, serving, model
):
    for version in (7, 8):
        versions.push(str(model), serving, version)
    object_store.delete(f"{serving}/8/variables/variables.index")
    assert listed(serving) == [7]


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
    monkeypatch.delattr(versions.files, "copy_directory")
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
    copy = versions.files.copy_directory

    def copy_and_truncate(source, target):
        copy(source, target)
        open(f"{target}/saved_model.pb", "wb").close()

    monkeypatch.setattr(versions.files, "copy_directory", copy_and_truncate)
    with pytest.raises(versions.VersionError, match=r"saved_model\.pb has 0 bytes"):
        versions.push(str(model), str(tmp_path / "serving"), 7)
    assert listed(tmp_path / "serving") == []
