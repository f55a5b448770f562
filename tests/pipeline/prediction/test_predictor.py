"""Predictions of texts by a loaded model."""

import pytest

from pipeline.config.errors import UsageError
from pipeline.prediction.predictor import Predictor, find_model

pytestmark = pytest.mark.slow


def test_newest_complete_version_is_loaded(served):
    assert find_model(str(served)) == str(served / "10")
    assert find_model(str(served / "9")) == str(served / "9")


def test_texts_are_passed_in_the_order_of_the_task(served):
    pairs = [("long text", "short"), ("a", "bb")]
    predictions = list(Predictor(str(served / "9")).predict(pairs))
    assert [prediction.value for prediction in predictions] == ["first", "second"]
    assert predictions[0].probability == pytest.approx(0.9)


def test_single_texts_get_a_score_without_a_probability(scorer):
    predictions = list(Predictor(scorer).predict([("12345",), ("",)]))
    assert [row.value for row in predictions] == pytest.approx([0.5, 0.0])
    assert predictions[0].probability is None


def test_wrong_number_of_texts_is_refused(served, scorer):
    with pytest.raises(UsageError, match=r"takes pairs \(right and left\).*--pair A B"):
        list(Predictor(str(served / "9")).predict([("a", "b"), ("a",)]))
    with pytest.raises(UsageError, match=r"single texts \(sentence\).*--text TEXT"):
        list(Predictor(scorer).predict([("a", "b")]))
