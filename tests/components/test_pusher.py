"""AtomicPusher: a version appears completely or not at all."""

import json
import os

import pytest
import tensorflow as tf
from tfx import v1 as tfx
from tfx.components.evaluator import constants
from tfx.orchestration.portable import data_types
from tfx.utils import proto_utils

from components.pusher.component import Driver, Executor
from contracts.storage import files
from contracts.versions import served_versions


def write_model(directory, identity=b"a"):
    os.makedirs(directory / "variables")
    (directory / "saved_model.pb").write_bytes(b"graph")
    (directory / "fingerprint.pb").write_bytes(identity)
    (directory / "variables" / "variables.index").write_bytes(b"weights")
    return directory


@pytest.fixture
def push(tmp_path):
    """Runs driver and executor on a model; returns the PushedModel artifact."""

    def push(
        model,
        blessed=True,
        with_driver=True,
        infra_blessing=None,
        directory=None,
        commits=None,
    ):
        artifact = tfx.types.standard_artifacts.Model()
        artifact.uri = str(model)
        blessing = tfx.types.standard_artifacts.ModelBlessing()
        blessing.uri = str(tmp_path / "blessing")
        blessing.set_int_custom_property(
            constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(blessed)
        )
        inputs = {"model": [artifact], "model_blessing": [blessing]}
        if infra_blessing is not None:
            inputs["infra_blessing"] = [infra_blessing]
        destination = tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(
                base_directory=str(directory or tmp_path / "serving")
            )
        )
        config = {"commits_file": str(commits)} if commits else None
        properties = {
            "push_destination": proto_utils.proto_to_json(destination),
            "custom_config": json.dumps(config),
        }
        info = data_types.ExecutionInfo(
            input_dict=inputs, exec_properties=properties, output_dict={}
        )
        version = ""
        if with_driver:
            outputs = Driver(None).run(info)
            version = outputs.exec_properties["version"].string_value
        pushed = tfx.types.standard_artifacts.PushedModel()
        pushed.uri = str(tmp_path / "pushed")
        Executor().Do(
            inputs, {"pushed_model": [pushed]}, {**properties, "version": version}
        )
        return pushed

    return push


@pytest.fixture
def model(tmp_path):
    """Returns a model where TFX's Trainer writes one."""
    return write_model(tmp_path / "trained" / "Format-Serving").parent


def served(tmp_path):
    return sorted(p.name for p in (tmp_path / "serving").glob("*"))


def test_blessed_model_appears_as_a_version(push, model, tmp_path):
    pushed = push(model)
    (version,) = served(tmp_path)
    assert pushed.get_int_custom_property("pushed") == 1
    destination = pushed.get_string_custom_property("pushed_destination")
    assert destination == str(tmp_path / "serving" / version)
    assert (tmp_path / "serving" / version / "variables" / "variables.index").exists()


def test_examples_of_the_serving_check_are_pushed_and_in_the_manifest(
    push, model, tmp_path
):
    checked = tfx.types.standard_artifacts.InfraBlessing()
    checked.uri = str(tmp_path / "checked")
    checked.set_int_custom_property("blessed", 1)
    (tmp_path / "checked").mkdir()
    (tmp_path / "checked" / "INFRA_BLESSED").touch()
    examples = '{"instances": [{"sentence": "Łódź"}]}'
    (tmp_path / "checked" / "examples.json").write_text(examples)
    push(model, infra_blessing=checked)
    (version,) = served_versions.list_complete(str(tmp_path / "serving"))
    path = tmp_path / "serving" / version / "assets.extra" / "examples.json"
    assert path.read_text() == examples
    path.unlink()
    assert list(served_versions.list_complete(str(tmp_path / "serving"))) == []


def test_portable_folder_of_the_serving_check_is_pushed_and_in_the_manifest(
    push, model, tmp_path
):
    checked = tfx.types.standard_artifacts.InfraBlessing()
    checked.uri = str(tmp_path / "checked")
    checked.set_int_custom_property("blessed", 1)
    (tmp_path / "checked" / "onnx").mkdir(parents=True)
    (tmp_path / "checked" / "INFRA_BLESSED").touch()
    for name in ("model.json", "manifest.json"):
        (tmp_path / "checked" / "onnx" / name).write_text('{"files": {}}')
    push(model, infra_blessing=checked)
    (version,) = served_versions.list_complete(str(tmp_path / "serving"))
    folder = tmp_path / "serving" / version
    assert served_versions.model_directory(str(folder), "model.json") == str(
        folder / "onnx"
    )
    assert "onnx/model.json" in served_versions.read_manifest(str(folder))
    (folder / "onnx" / "model.json").unlink()
    assert list(served_versions.list_complete(str(tmp_path / "serving"))) == []


def test_version_has_the_commits_of_its_first_push(push, model, tmp_path):
    file = tmp_path / "commits.json"
    first = {"code": {"id": "0123456789abcdef", "changes": []}, "recipe": None}
    files.write_record(str(file), first)
    pushed = push(model, commits=file)
    (version,) = served(tmp_path)
    directory = str(tmp_path / "serving" / version)
    assert served_versions.read_commits(directory)["code"] == first["code"]
    assert "saved_model.pb" in served_versions.read_manifest(directory)
    files.write_record(str(file), {"code": None, "recipe": None})
    again = push(model, commits=file)
    for artifact in (pushed, again):
        commits = json.loads(artifact.get_string_custom_property("commits"))
        assert commits["code"] == first["code"]
    refused = push(model, blessed=False, commits=file)
    commits = json.loads(refused.get_string_custom_property("commits"))
    assert commits["code"] is None


def test_model_that_is_not_blessed_leaves_no_trace(push, model, tmp_path):
    pushed = push(model, blessed=False)
    assert pushed.get_int_custom_property("pushed") == 0
    assert served(tmp_path) == []


def test_next_model_gets_a_higher_version_and_the_previous_one_stays(
    push, model, tmp_path
):
    push(model)
    (first,) = served(tmp_path)
    other = write_model(tmp_path / "other" / "Format-Serving", b"b").parent
    push(other)
    assert len(served(tmp_path)) == 2
    newest = next(served_versions.list_complete(str(tmp_path / "serving")))
    assert int(newest) > int(first)
    assert served_versions.is_same_model(
        str(other / "Format-Serving"), str(tmp_path / "serving" / newest)
    )


@pytest.mark.parametrize("with_driver", [True, False], ids=["local", "cluster"])
def test_live_model_is_not_pushed_again(push, model, tmp_path, with_driver):
    push(model, with_driver=with_driver)
    before = served(tmp_path)
    push(model, with_driver=with_driver)
    assert served(tmp_path) == before


def test_failed_push_leaves_no_version_and_the_next_one_completes(
    push, model, tmp_path, monkeypatch
):
    def die(source, target, *_, **__):
        os.makedirs(target)
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(served_versions.files, "copy_directory", die)
        with pytest.raises(OSError, match="no space left"):
            push(model)
    assert list(served_versions.list_complete(str(tmp_path / "serving"))) == []
    push(model)
    newest, *_ = served_versions.list_complete(str(tmp_path / "serving"))
    assert (tmp_path / "serving" / newest / "saved_model.pb").exists()


def withdraw(tmp_path, version):
    """Moves a version as a rollback does."""
    withdrawn = tmp_path / "serving" / served_versions.WITHDRAWN
    withdrawn.mkdir(exist_ok=True)
    (tmp_path / "serving" / version).rename(withdrawn / version)


@pytest.mark.parametrize("with_driver", [True, False], ids=["local", "cluster"])
def test_model_that_was_rolled_back_is_not_pushed_again(
    push, model, tmp_path, with_driver
):
    push(model)
    (version,) = served(tmp_path)
    withdraw(tmp_path, version)
    pushed = push(model, with_driver=with_driver)
    assert pushed.get_int_custom_property("pushed") == 0
    assert pushed.get_string_custom_property("withdrawn_version") == version
    assert served(tmp_path) == [served_versions.WITHDRAWN]


def test_model_that_is_served_under_another_version_was_not_rolled_back(
    push, model, tmp_path
):
    other = write_model(tmp_path / "other" / "Format-Serving", b"b").parent
    for candidate in (model, other, model):
        push(candidate)
    first, second, third = served(tmp_path)
    for version in (second, third):
        withdraw(tmp_path, version)
    assert push(model).get_int_custom_property("pushed") == 1
    assert served(tmp_path) == [served_versions.WITHDRAWN, first]


def test_version_in_a_bucket_is_complete_and_is_pushed_once(
    push, tmp_path, bucket, object_store
):
    files.copy_directory(
        str(write_model(tmp_path / "trained")), f"{bucket}/model/Format-Serving"
    )
    serving = f"{bucket}/serving"
    for _ in range(2):
        pushed = push(f"{bucket}/model", with_driver=False, directory=serving)
    (version,) = served_versions.list_complete(serving)
    destination = pushed.get_string_custom_property("pushed_destination")
    assert destination == f"{serving}/{version}"
    keys = object_store.keys(f"{destination}/")
    assert keys == [
        f"serving/{version}/{name}"
        for name in (
            "fingerprint.pb",
            "manifest.json",
            "saved_model.pb",
            "variables/variables.index",
        )
    ]
    manifest = json.loads(object_store.read(f"{destination}/manifest.json"))
    assert manifest["files"]["saved_model.pb"]["size"] == len(b"graph")


def test_model_that_was_rolled_back_in_a_bucket_is_not_pushed_again(
    push, model, bucket, object_store
):
    serving = f"{bucket}/serving"
    push(model, directory=serving)
    (version,) = served_versions.list_complete(serving)
    tf.io.gfile.rename(
        f"{serving}/{version}", f"{serving}/{served_versions.WITHDRAWN}/{version}"
    )
    pushed = push(model, with_driver=False, directory=serving)
    assert pushed.get_int_custom_property("pushed") == 0
    assert pushed.get_string_custom_property("withdrawn_version") == str(version)
    assert list(served_versions.list_complete(serving)) == []


def test_watcher_never_sees_an_incomplete_model(push, model, tmp_path, monkeypatch):
    """During the copy there is no version that a server could load."""
    seen = []
    copy = served_versions.files.copy_directory

    def watched(source, target, *args, **kwargs):
        copy(source, target, *args, **kwargs)
        seen.extend(served_versions.list_complete(str(tmp_path / "serving")))

    monkeypatch.setattr(served_versions.files, "copy_directory", watched)
    push(model)
    assert seen == []
    assert len(list(served_versions.list_complete(str(tmp_path / "serving")))) == 1
