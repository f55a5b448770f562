"""Predictions of texts by a loaded model."""

import re
import shutil

import pytest

from contracts.versions import exported_model
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from tests.refusals import refused

pytestmark = pytest.mark.slow


def test_texts_are_passed_in_the_order_of_the_task(served):
    pairs = [("long text", "short"), ("a", "bb")]
    predictions = list(SavedModelPredictor(str(served / "9")).predict(pairs))
    assert [prediction.value for prediction in predictions] == ["first", "second"]
    assert predictions[0].probability == pytest.approx(0.9)


def test_single_texts_get_a_score_without_a_probability(scorer):
    predictions = list(SavedModelPredictor(scorer).predict([("12345",), ("",)]))
    assert [row.value for row in predictions] == pytest.approx([0.5, 0.0])
    assert predictions[0].probability is None


def test_class_that_is_improbable_is_not_predicted(served):
    predictor = SavedModelPredictor(str(served / "9"), min_probability=0.6)
    rows = [("same", "same"), ("longer", "x")]
    assert [row.value for row in predictor.predict(rows)] == ["first", "first"]
    predictor = SavedModelPredictor(str(served / "9"), min_probability=0.9)
    unsure, sure = predictor.predict(rows)
    assert (unsure.value, sure.value) == (None, "first")
    assert unsure.probability == pytest.approx(0.6)


def test_text_gets_any_number_of_labels(labeller):
    predictions = list(SavedModelPredictor(labeller).predict([("ab",), ("b",), ("c",)]))
    names = ["with a", "with b"]
    assert [row.value for row in predictions] == [names, names[1:], []]
    assert predictions[1].probabilities == pytest.approx({"with a": 0.2, "with b": 0.9})


def test_labels_without_their_names_are_refused(labeller, tmp_path):
    shutil.copytree(labeller, tmp_path / "model")
    (tmp_path / "model" / exported_model.DESCRIPTION_FILE).unlink()
    absent = re.compile(r"no .*architecture\.json")
    with refused("E-model-not-found", setting="model", got=absent):
        SavedModelPredictor(str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("saved_model.pb", b"\x08\x01\x12\x05wrong"),
        ("variables/variables.index", b""),
        ("variables/variables.data-00000-of-00001", b""),
    ],
)
def test_copy_with_a_damaged_file_is_refused(served, tmp_path, file, content):
    model = shutil.copytree(served / "9", tmp_path / "model")
    (model / file).write_bytes(content)
    with refused("E-model-damaged", setting=str(model)):
        SavedModelPredictor(str(model))


@pytest.mark.parametrize("model", ["scorer", "labeller"])
def test_model_without_a_class_has_no_least_probability(request, model):
    directory, got = request.getfixturevalue(model), re.compile(r"^0\.8; the model")
    with refused("E-options-conflict", setting="min_probability", got=got):
        SavedModelPredictor(directory, min_probability=0.8)


def test_wrong_number_of_texts_is_refused(served, scorer):
    got, advice = "the model takes pairs (right and left)", "give `pair` instead"
    with refused("E-options-conflict", setting="text", got=got, advice=advice):
        list(SavedModelPredictor(str(served / "9")).predict([("a", "b"), ("a",)]))
    got, advice = "the model takes single texts (sentence)", "give `text` instead"
    with refused("E-options-conflict", setting="pair", got=got, advice=advice):
        list(SavedModelPredictor(scorer).predict([("a", "b")]))
