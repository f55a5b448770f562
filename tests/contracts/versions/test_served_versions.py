"""Which versions are complete, for all who use them, local or remote."""

import errno
import hashlib
import itertools
import json
import logging
import os
import re
import shutil
import stat

import pytest
import tensorflow as tf

from contracts.storage import files
from contracts.versions import served_versions
from contracts.versions.served_versions import VersionError
from pipeline.config.paths import OutputPaths
from pipeline.operations.releases import list_pushed, roll_back
from prediction.model_directory import find_model
from serving import discovery
from tests import tiny
from tests.nightly import nightly
from tests.refusals import refused
from tests.serving import small_models

FILES = {
    "fingerprint.pb": b"a",
    "saved_model.pb": tiny.GRAPH,
    "variables/variables.data-00000-of-00001": b"weights",
    "variables/variables.index": b"index",
}
FILES_OF_SMALL = ("saved_model.pb", "variables/variables.index")


def listed(directory):
    return list(served_versions.list_complete(str(directory)))


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
    served_versions.push(str(model), str(tmp_path / "serving"), "7")
    manifest = json.loads((tmp_path / "serving" / "7" / "manifest.json").read_text())
    assert manifest["files"] == {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in FILES.items()
    }


def lose_a_file(version):
    (version / "variables" / "variables.index").unlink()


def without(*names):
    """Returns a change that deletes files of a version."""

    def change(version):
        for name in names:
            (version / name).unlink()

    return change


def with_manifest(content):
    return lambda version: (version / "manifest.json").write_text(content)


def make_the_manifest_a_directory(version):
    """It cannot be read, even by root."""
    (version / "manifest.json").unlink()
    (version / "manifest.json").mkdir()


def replace_by(*names):
    """Returns a change that leaves a directory of files, or a file without names."""

    def change(version):
        shutil.rmtree(version)
        if not names:
            version.touch()
            return
        version.mkdir()
        for name in names:
            (version / name).write_text("card")

    return change


def rename_to(name):
    return lambda version: version.rename(version.with_name(name))


def leave_strays(version):
    """Leaves what people, file managers and tools leave next to versions."""
    for parent in (version.parent, version.parent / served_versions.WITHDRAWN):
        for name in ("²", str(2**63), "@eaDir"):
            (parent / name).mkdir(parents=True)
        for name in (".DS_Store", "9"):
            (parent / name).touch()


MANIFEST = "manifest.json"
WEIGHTS = "variables/variables.data-00000-of-00001"
COMPLETE = {
    "pushed": lambda _: None,
    "copied by hand": without(MANIFEST),
    "padded with zeros": rename_to("0008"),
    "beside strays": leave_strays,
}
INCOMPLETE = {
    "half deleted": lose_a_file,
    "half deleted with its manifest": without(MANIFEST, WEIGHTS),
    "cut": lambda version: (version / "saved_model.pb").write_bytes(b"g"),
    "half copied by hand": without(MANIFEST, "saved_model.pb"),
    "being pushed": lambda version: version.with_name(".8.incomplete").mkdir(),
    "manifest of 0 bytes": with_manifest(""),
    "manifest without files": with_manifest('{"other": 1}'),
    "manifest that is a list": with_manifest("[]"),
    "manifest without sizes": with_manifest('{"files": {"a": 1}}'),
    "manifest that leads out": with_manifest('{"files": {"../a": {"size": 1}}}'),
    "manifest that cannot be read": make_the_manifest_a_directory,
    "only a card": replace_by("README.md"),
    "file": replace_by(),
    "superscript": rename_to("⁸"),
    "above 64 bits": rename_to(str(2**63)),
}


def pipeline_of(paths):
    return served_versions.find_newest(str(paths.pushed))


def server_of(paths):
    return max(discovery.find_model(paths.pushed).scan())


def versions_command_of(paths):
    (served,) = (v.version for v in list_pushed(paths) if v.state == "served")
    return served


def rollback_of(paths):
    """A rollback without a version serves the one before the served one."""
    return roll_back(paths.pushed, None, "").version + 1


def predict_of(paths):
    return find_model(str(paths.pushed)).rpartition("/")[2]


@pytest.fixture
def paths(model, tmp_path):
    """The output directory of a recipe that pushed the versions 6, 7 and 8."""
    paths = OutputPaths(tmp_path / "output", "tiny")
    for version in ("6", "7", "8"):
        served_versions.push(str(model), str(paths.pushed), version)
    return paths


@pytest.mark.parametrize(
    "user", [pipeline_of, server_of, versions_command_of, rollback_of, predict_of]
)
@pytest.mark.parametrize(
    ("change", "newest"),
    [
        *(pytest.param(change, 8, id=name) for name, change in COMPLETE.items()),
        *(pytest.param(change, 7, id=name) for name, change in INCOMPLETE.items()),
    ],
)
def test_complete_version_is_the_same_for_every_user(paths, user, change, newest):
    change(paths.pushed / "8")
    assert int(user(paths)) == newest


@pytest.mark.parametrize("change", INCOMPLETE.values(), ids=INCOMPLETE)
def test_card_is_written_only_into_a_complete_version(paths, change):
    change(paths.pushed / "8")
    before = sorted(paths.pushed.rglob("*"))
    with pytest.raises(VersionError, match="tiny/8: missing or incomplete"):
        served_versions.write_card(str(paths.pushed / "8"), lambda _: "card")
    assert sorted(paths.pushed.rglob("*")) == before


def save_with_a_variable(directory):
    module = tf.Module()
    module.weight = tf.Variable([1.0])
    tf.saved_model.save(module, str(directory))


def save_with_a_variable_of_tensorflow_1(directory):
    small_models.save_half_plus_three(directory)


def save_without_variables(directory):
    tf.saved_model.save(tf.Module(), str(directory))


@pytest.mark.parametrize(
    ("save", "problem"),
    [
        (save_with_a_variable, "variables/variables.index is missing"),
        (save_with_a_variable_of_tensorflow_1, "variables/variables.index is missing"),
        (save_without_variables, ""),
    ],
)
def test_model_without_a_manifest_lacks_only_variables_that_its_graph_has(
    tmp_path, save, problem
):
    """Copies by hand and object stores drop an empty directory `variables`."""
    save(tmp_path / "3")
    assert served_versions.find_problem(str(tmp_path / "3")) == ""
    shutil.rmtree(tmp_path / "3" / "variables")
    assert served_versions.find_problem(str(tmp_path / "3")) == problem


def test_server_logs_once_which_directories_it_ignores(paths, caplog):
    caplog.set_level(logging.WARNING, discovery.logger.name)
    shutil.copytree(paths.pushed / "6", paths.pushed / "08")
    shutil.copytree(paths.pushed / "6", paths.pushed / str(2**63))
    source = discovery.find_model(paths.pushed)
    assert source.scan()[8] == paths.pushed / "8"
    assert sorted(source.scan({8})) == [6, 7, 8]
    assert caplog.text.count("tiny/08 is incomplete and not loaded") == 1
    assert caplog.text.count("8 has the same number") == 1
    assert caplog.text.count(f"{2**63} is incomplete and not loaded") == 1
    assert caplog.text.count("highest version is 9223372036854775807") == 1


def test_number_that_no_server_loads_is_never_chosen(model, tmp_path):
    write_model(tmp_path / "serving" / str(2**63 - 1))
    (tmp_path / "serving" / str(2**63 - 1) / "fingerprint.pb").write_bytes(b"b")
    with pytest.raises(VersionError, match="has the highest version"):
        served_versions.choose_version(str(tmp_path / "serving"), str(model))


def test_incomplete_model_is_neither_used_for_predictions_nor_served(paths):
    lose_a_file(paths.pushed / "8")
    got = "incomplete: variables/variables.index is missing"
    with refused("E-model-damaged", got=got):
        find_model(f"{paths.pushed}/8/")
    with refused("E-model-not-found", setting="model"):
        discovery.find_model(paths.pushed / "8")


def test_shortest_of_two_names_of_one_number_counts(model, tmp_path):
    for name in ("07", "7", "007", "6"):
        write_model(tmp_path / "serving" / name)
    assert listed(tmp_path / "serving") == ["7", "6"]


def test_incomplete_version_is_skipped_with_a_warning(paths, caplog):
    lose_a_file(paths.pushed / "8")
    with caplog.at_level(logging.WARNING, logger=served_versions.logger.name):
        assert listed(paths.pushed) == ["7", "6"]
    expected = "tiny/8 is incomplete and is skipped: variables/variables.index is miss"
    assert expected in caplog.text


@pytest.mark.parametrize("name", [".withdrawn/{}", "{}", ".{}.incomplete"])
@pytest.mark.parametrize("root", ["tmp_path", "bucket"])
def test_version_number_is_never_reused(model, root, name, request):
    """Also if the clock is behind, and whatever became of the version."""
    directory = f"{request.getfixturevalue(root)}/serving"
    number = 2 * int(served_versions.choose_version(directory, str(model)))
    files.write(f"{directory}/{name.format(number)}/saved_model.pb", "of another model")
    assert served_versions.choose_version(directory, str(model)) == str(number + 1)


@pytest.fixture
def serving(bucket):
    return f"{bucket}/models/serving"


def relative_keys(object_store, directory):
    """Returns the keys below a directory, relative to it."""
    prefix = directory.split("/", 3)[3] + "/"
    keys = object_store.keys(f"{directory}/")
    return {key.removeprefix(prefix) for key in keys}


def kill_at_writes(object_store, bucket, model):
    """Kills pushes at every second write; yields the directory after each kill."""
    for writes in itertools.count(0, 2):
        serving = f"{bucket}/{writes}"
        object_store.refuse_after(bucket, writes)
        try:
            served_versions.push(str(model), serving, "7")
        except tf.errors.PermissionDeniedError:
            object_store.accept_all()
            yield serving
        else:
            break
    assert listed(serving) == ["7"]
    assert writes > 3 * len(FILES_OF_SMALL)  # each is written, copied and deleted


@pytest.mark.slow
def test_killed_push_to_an_object_store_leaves_no_version_and_a_retry_completes(
    object_store, bucket, small_model
):
    """Every second retry has the same version, the others have a new one."""
    kills = kill_at_writes(object_store, bucket, small_model)
    for index, serving in enumerate(kills):
        assert listed(serving) == []
        retry = "7"
        if index % 2:
            retry = served_versions.choose_version(serving, str(small_model))
            assert int(retry) > 7
        served_versions.push(str(small_model), serving, retry)
        assert listed(serving) == [retry]
        assert relative_keys(object_store, serving) == {
            f"{retry}/{name}" for name in [*FILES_OF_SMALL, "manifest.json"]
        }


def test_push_of_another_run_on_an_object_store_is_not_disturbed(
    object_store, serving, model
):
    """A killed push of an hour ago is deleted, a later one may still be running."""
    now = int(served_versions.choose_version(serving, str(model)))
    hour_ago = now - served_versions._ABANDONED_SECONDS * 1000 - 1
    for version in (hour_ago, now):
        object_store.write(f"{serving}/.{version}.incomplete/saved_model.pb", "graph")
    served_versions.push(str(model), serving, str(now + 1))
    names = tf.io.gfile.listdir(serving)
    assert set(names) == {f".{now}.incomplete/", f"{now + 1}/"}


def test_versions_of_a_storage_that_does_not_respond_are_an_error(
    object_store, bucket, serving, model
):
    """Otherwise a run would compare its model with an older one, or with none."""
    for version in ("7", "8"):
        served_versions.push(str(model), serving, version)
    object_store.fail(bucket, 503, times=None)
    with pytest.raises(tf.errors.OpError, match="503"):
        served_versions.find_newest(serving)


def test_complete_version_is_not_pushed_again(model, tmp_path, monkeypatch):
    served_versions.push(str(model), str(tmp_path / "serving"), "7")
    monkeypatch.delattr(served_versions.files, "copy_directory")
    served_versions.push(str(model), str(tmp_path / "serving"), "7")
    assert listed(tmp_path / "serving") == ["7"]


def test_version_is_pushed_where_directories_cannot_be_synced(
    model, tmp_path, monkeypatch
):
    sync = os.fsync

    def refuse_directories(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_directories)
    served_versions.push(str(model), str(tmp_path / "served"), "1")
    assert list(served_versions.list_complete(str(tmp_path / "served"))) == ["1"]


def test_damaged_file_is_named_when_a_version_is_copied(model, tmp_path):
    served_versions.push(str(model), str(tmp_path / "serving"), "7")
    path = tmp_path / "serving" / "7" / "saved_model.pb"
    path.write_bytes(path.read_bytes()[::-1])
    got = re.compile(r"damaged: saved_model\.pb differs")
    with refused("E-model-damaged", VersionError, setting=str(path.parent), got=got):
        served_versions.copy(str(path.parent), str(tmp_path / "copy"))


def test_model_that_changes_while_it_is_copied_is_not_pushed(
    model, tmp_path, monkeypatch
):
    copy = served_versions.files.copy_directory

    def copy_and_truncate(source, target):
        copy(source, target)
        open(f"{target}/saved_model.pb", "wb").close()

    monkeypatch.setattr(served_versions.files, "copy_directory", copy_and_truncate)
    got = re.compile(r"saved_model\.pb has 0 bytes")
    with refused("E-storage-failed", VersionError, got=got):
        served_versions.push(str(model), str(tmp_path / "serving"), "7")
    assert listed(tmp_path / "serving") == []


@pytest.fixture(params=["local", nightly("remote")])
def cards(request, tmp_path):
    """Writes cards of versions of a directory, local or remote.

    Returns:
      The directory, and a function that writes the card of a version and returns the
      one that it was rendered from.
    """
    root = tmp_path if request.param == "local" else request.getfixturevalue("bucket")
    directory = f"{root}/serving"

    def write(version, text):
        path = f"{directory}/{version}"
        if not files.exists(f"{directory}/.withdrawn/{version}"):
            files.write(f"{path}/saved_model.pb", "graph")
        seen = []
        served_versions.write_card(path, lambda last: seen.append(last) or text)
        return seen[0]

    return directory, write


def test_card_is_rendered_from_that_of_its_version_or_the_previous_one(cards):
    directory, write = cards
    assert write(9, "nine") is None
    assert write(10, "ten, with ö") == "nine"
    assert write(10, "ten again") == "ten, with ö"
    assert write(8, "eight") is None
    assert files.read(f"{directory}/10/README.md") == b"ten again"


def test_card_that_is_not_utf_8_is_named(paths):
    (paths.pushed / "7" / "README.md").write_bytes("Łódź".encode("utf-16"))
    path = str(paths.pushed / "7" / "README.md")
    with refused("E-record-damaged", VersionError, setting=path):
        served_versions.write_card(str(paths.pushed / "8"), str)
    assert not (paths.pushed / "8" / "README.md").exists()


def test_card_of_an_incomplete_version_does_not_count(cards):
    directory, write = cards
    files.write(f"{directory}/9/README.md", "without a model")
    assert write(10, "ten") is None


@pytest.mark.parametrize("cards", ["local", "remote"], indirect=True)
def test_card_of_a_version_that_was_rolled_back_counts(cards):
    directory, write = cards
    write(1, "one")
    write(2, "two, with what a person wrote")
    tf.io.gfile.makedirs(f"{directory}/.withdrawn")
    files.rename(f"{directory}/2", f"{directory}/.withdrawn/2")
    assert write(3, "three") == "two, with what a person wrote"
    assert write(1, "one again") == "one"


def test_card_follows_a_version_that_was_rolled_back_meanwhile(cards):
    directory, write = cards
    write(2, "two")
    tf.io.gfile.makedirs(f"{directory}/.withdrawn")
    files.rename(f"{directory}/2", f"{directory}/.withdrawn/2")
    assert write(2, "two again") == "two"
    assert served_versions.list_versions(directory) == []
    assert files.read(f"{directory}/.withdrawn/2/README.md") == b"two again"


def test_rollback_while_a_card_is_rendered_leaves_no_directory_with_only_a_card(paths):
    def render(_):
        roll_back(paths.pushed, 7, "")
        return "card"

    with pytest.raises(FileNotFoundError):
        served_versions.write_card(str(paths.pushed / "8"), render)
    assert not (paths.pushed / "8").exists()


def test_exported_folder_is_refused_by_predict_and_names_the_runtime(tmp_path):
    folder = write_portable(tmp_path / "served" / "1")
    for directory in (folder, folder.parent):
        got = f"{folder} is for bert-runtime"
        with refused("E-model-not-found", setting="model", got=got):
            find_model(str(directory))


def write_portable(directory):
    directory.mkdir(parents=True)
    (directory / "model.json").write_text("{}")
    return directory


def test_exported_folder_in_a_version_is_that_of_the_version(model, tmp_path):
    """It is complete once it has a manifest, and no push of the version is running."""
    shutil.copytree(model, tmp_path / "served" / "7")
    version, main_file = str(tmp_path / "served" / "7"), "model.json"
    assert not served_versions.is_model(version, main_file)
    assert (
        served_versions.find_problem(version, main_file) == "onnx/model.json is missing"
    )
    folder = write_portable(tmp_path / "served" / "7" / "onnx")
    assert served_versions.model_directory(version, main_file) == str(folder)
    missing = "manifest.json is missing"
    assert served_versions.find_problem(version, main_file) == missing
    files.write_record(
        str(folder / "manifest.json"),
        {"files": {"model.json": {"size": 2, "sha256": "a"}}},
    )
    directory = os.path.dirname(version)
    assert list(served_versions.list_complete(directory, main_file)) == ["7"]
    with refused("E-model-damaged", setting=version):
        served_versions.verify(version, main_file)
    (tmp_path / "served" / ".7.incomplete").mkdir()
    assert list(served_versions.list_complete(directory, main_file)) == []
    # The SavedModel is read from the version itself.
    assert served_versions.model_directory(version) == version
