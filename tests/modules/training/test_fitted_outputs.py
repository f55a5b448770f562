"""The temperature and the threshold that are fitted after a training."""

import numpy as np
import pytest
from scipy import special

from modules.config.decision import DecisionConfig
from modules.config.task import TaskConfig
from modules.evaluation import calibration
from modules.evaluation.prediction_files import Predictions
from modules.training import fitted_outputs

TASK = TaskConfig()
COSTS = DecisionConfig(costs={"false_positive": 1.0, "false_negative": 4.0})


def draw(rows, seed):
    """Returns predictions that are twice as certain as they should be."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (rows, 2))
    true = calibration.scale(np.exp(logits), 1.0)
    labels = (rng.random(rows) < true[:, 1]).astype(int)
    outputs = calibration.scale(true, 0.5)
    return Predictions(np.arange(rows), labels, outputs, np.zeros(rows))


@pytest.fixture
def predictions():
    return {"eval": draw(2000, 0), "test": draw(2000, 1)}


def fit(task, predictions, *, scales=True, decision=None):
    return fitted_outputs.fit(task, predictions, scales=scales, decision=decision)


def test_threshold_is_that_of_scaled_probabilities(predictions):
    fitted = fit(TASK, predictions, decision=COSTS)
    assert fitted.temperature == pytest.approx(2, rel=0.1)
    # A row costs less as a positive one from this probability on.
    assert fitted.threshold == pytest.approx(1 / 5, abs=0.06)
    assert fitted.description == {
        "temperature": fitted.temperature,
        "threshold": fitted.threshold,
    }
    assert fitted.decision["split"] == "eval"
    for split in ("eval", "test"):
        default, chosen = (fitted.decision[k][split] for k in ("default", "chosen"))
        assert default["threshold"] == 0.5
        assert chosen["value"] < default["value"]
        assert chosen["metrics"]["recall"] > default["metrics"]["recall"]
        metrics = fitted.predictions[split].compute_metrics(TASK)
        assert metrics["recall"] == chosen["metrics"]["recall"]
    assert len(fitted.decision["curve"]) <= 201


def test_nothing_is_fitted_where_nothing_is_asked_for(predictions):
    fitted = fit(TASK, predictions, scales=False)
    assert fitted.predictions is predictions
    assert fitted.description == {}
    assert (fitted.calibration, fitted.decision) == (None, None)


def test_threshold_without_a_temperature_is_of_the_probabilities_as_trained(
    predictions,
):
    fitted = fit(TASK, predictions, scales=False, decision=COSTS)
    assert fitted.temperature is None
    # The probability of 0.2 is 0.06 if it is squared, and so is its complement.
    assert fitted.threshold == pytest.approx(0.04 / (0.04 + 0.64), abs=0.05)


def test_scores_have_neither():
    rows = Predictions(np.arange(2), np.zeros(2), np.ones(2), np.ones(2))
    task = TaskConfig(label_range=[0.0, 1.0])
    assert fit(task, {"eval": rows}).description == {}


LABELS = TaskConfig(kind="multilabel", classes=["rude", "threat"])


def draw_labels(rows, seed):
    """Returns predictions of two labels that are twice as certain as they should be."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(-1, 2, (rows, 2))
    labels = (rng.random((rows, 2)) < special.expit(logits)).astype(int)
    outputs = special.expit(2 * logits)
    return Predictions(np.arange(rows), labels, outputs, np.zeros(rows))


def test_each_label_of_several_has_a_threshold_and_all_have_one_temperature():
    predictions = {"eval": draw_labels(2000, 0), "test": draw_labels(2000, 1)}
    fitted = fit(LABELS, predictions, decision=COSTS)
    assert fitted.temperature == pytest.approx(2, rel=0.1)
    assert fitted.threshold == pytest.approx([1 / 5, 1 / 5], abs=0.06)
    assert fitted.description["threshold"] == fitted.threshold
    before, after = (fitted.calibration[key]["test"] for key in ("before", "after"))
    assert after["loss"] < before["loss"]
    assert after["expected_calibration_error"] < before["expected_calibration_error"]
    by_label = fitted.decision["labels"]
    assert list(by_label) == LABELS.classes
    metrics = fitted.predictions["test"].compute_metrics(LABELS)
    for name, record in by_label.items():
        chosen, default = (record[key]["test"] for key in ("chosen", "default"))
        assert chosen["value"] < default["value"]
        assert metrics[f"recall/{name}"] == chosen["metrics"]["recall"]


def test_temperature_of_certain_labels_divides_their_logits():
    """Float32 has no probability between that of a logit of 16 and 1."""
    logits = np.array([[18.0, -18.0], [4.0, -30.0]])
    outputs = special.expit(logits)
    rows = Predictions(np.arange(2), np.ones((2, 2), int), outputs, np.zeros(2))
    np.testing.assert_allclose(rows.scale(3).outputs, special.expit(logits / 3), 1e-6)
