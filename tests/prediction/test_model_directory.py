"""Finding a pushed model."""

import re

import pytest
import tensorflow as tf

from contracts.versions import served_versions
from prediction.model_directory import find_model
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from tests import toy_models
from tests.refusals import refused

pytestmark = pytest.mark.slow


def test_newest_complete_version_is_loaded(served):
    assert find_model(str(served)) == str(served / "10")
    assert find_model(str(served / "9")) == str(served / "9")


def test_newest_complete_version_of_a_bucket_is_loaded(served, bucket, object_store):
    serving = f"{bucket}/serving"
    for version in ("9", "10", "11"):
        served_versions.push(str(served / "9"), serving, version)
    object_store.delete(f"{serving}/11/saved_model.pb")
    tf.io.gfile.rename(f"{serving}/10", f"{serving}/{served_versions.WITHDRAWN}/10")
    assert find_model(serving) == f"{serving}/9"
    (prediction,) = SavedModelPredictor(find_model(serving)).predict(
        [("long text", "short")]
    )
    assert prediction.value == "first"


@pytest.mark.parametrize("name", ["empty", "no-such-bucket"])
def test_bucket_without_a_model_is_refused(bucket, name):
    directory = f"{bucket}/empty" if name == "empty" else f"gs://{name}/model"
    with refused("E-model-not-found", setting="model", got=re.compile(directory)):
        find_model(directory)


def test_model_whose_path_tensorflow_reads_as_a_pattern_is_refused(tmp_path):
    model = toy_models.save(toy_models.Longer(), tmp_path / "pairs (2) [new]")
    with refused("E-path-pattern"):
        find_model(str(model))
    (tmp_path / "link").symlink_to(model)
    (prediction,) = SavedModelPredictor(find_model(str(tmp_path / "link"))).predict(
        [("aa", "b")]
    )
    assert prediction.value == "first"


def test_model_whose_files_changed_after_the_push_is_refused(served, tmp_path, caplog):
    served_versions.push(str(served / "9"), str(tmp_path), "9")
    variables = tmp_path / "9" / "variables" / "variables.index"
    content = bytearray(variables.read_bytes())
    assert find_model(str(tmp_path)) == str(tmp_path / "9")
    assert not caplog.records
    content[-1] ^= 1
    variables.write_bytes(content)
    for model in (tmp_path, tmp_path / "9"):
        damage = re.compile("^damaged: variables/variables.index")
        with refused("E-model-damaged", setting=str(tmp_path / "9"), got=damage):
            find_model(str(model))


def test_copied_model_is_reported_as_unchecked(served, caplog):
    find_model(str(served))
    assert f"{served}/10 has no manifest.json, so its files are not" in caplog.text
