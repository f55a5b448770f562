"""Predictions of texts by a loaded model."""

import re
import shutil

import pytest
import tensorflow as tf

from contracts.versions import exported_model, served_versions
from prediction.predictor import Predictor, find_model
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
    (prediction,) = Predictor(find_model(serving)).predict([("long text", "short")])
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
    (prediction,) = Predictor(find_model(str(tmp_path / "link"))).predict([("aa", "b")])
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


def test_texts_are_passed_in_the_order_of_the_task(served):
    pairs = [("long text", "short"), ("a", "bb")]
    predictions = list(Predictor(str(served / "9")).predict(pairs))
    assert [prediction.value for prediction in predictions] == ["first", "second"]
    assert predictions[0].probability == pytest.approx(0.9)


def test_single_texts_get_a_score_without_a_probability(scorer):
    predictions = list(Predictor(scorer).predict([("12345",), ("",)]))
    assert [row.value for row in predictions] == pytest.approx([0.5, 0.0])
    assert predictions[0].probability is None


def test_class_that_is_improbable_is_not_predicted(served):
    predictor = Predictor(str(served / "9"), min_probability=0.6)
    rows = [("same", "same"), ("longer", "x")]
    assert [row.value for row in predictor.predict(rows)] == ["first", "first"]
    predictor = Predictor(str(served / "9"), min_probability=0.9)
    unsure, sure = predictor.predict(rows)
    assert (unsure.value, sure.value) == (None, "first")
    assert unsure.probability == pytest.approx(0.6)


def test_text_gets_any_number_of_labels(labeller):
    predictions = list(Predictor(labeller).predict([("ab",), ("b",), ("c",)]))
    names = ["with a", "with b"]
    assert [row.value for row in predictions] == [names, names[1:], []]
    assert predictions[1].probabilities == pytest.approx({"with a": 0.2, "with b": 0.9})


def test_labels_without_their_names_are_refused(labeller, tmp_path):
    shutil.copytree(labeller, tmp_path / "model")
    (tmp_path / "model" / exported_model.DESCRIPTION_FILE).unlink()
    absent = re.compile(r"no .*architecture\.json")
    with refused("E-model-not-found", setting="model", got=absent):
        Predictor(str(tmp_path / "model"))


@pytest.mark.parametrize("model", ["scorer", "labeller"])
def test_model_without_a_class_has_no_least_probability(request, model):
    directory, got = request.getfixturevalue(model), re.compile(r"^0\.8; the model")
    with refused("E-options-conflict", setting="min_probability", got=got):
        Predictor(directory, min_probability=0.8)


def test_wrong_number_of_texts_is_refused(served, scorer):
    got, advice = "the model takes pairs (right and left)", "give `pair` instead"
    with refused("E-options-conflict", setting="text", got=got, advice=advice):
        list(Predictor(str(served / "9")).predict([("a", "b"), ("a",)]))
    got, advice = "the model takes single texts (sentence)", "give `text` instead"
    with refused("E-options-conflict", setting="pair", got=got, advice=advice):
        list(Predictor(scorer).predict([("a", "b")]))
