"""The temperature and the threshold that are fitted after a training."""

import numpy as np
import pytest
from scipy import special

from contracts.task.decision import DecisionConfig
from contracts.task.definition import TaskConfig
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
    assert fitted.decision.split == "eval"
    for split in ("eval", "test"):
        default, chosen = (
            getattr(fitted.decision, key)[split] for key in ("default", "chosen")
        )
        assert default.threshold == 0.5
        assert chosen.value < default.value
        assert chosen.metrics["recall"] > default.metrics["recall"]
        metrics = fitted.predictions[split].compute_metrics(TASK)
        assert metrics["recall"] == chosen.metrics["recall"]
    assert len(fitted.decision.curve) <= 201


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
    before, after = (
        getattr(fitted.calibration, key)["test"] for key in ("before", "after")
    )
    assert after.loss < before.loss
    assert after.expected_calibration_error < before.expected_calibration_error
    by_label = fitted.decision.labels
    assert list(by_label) == LABELS.classes
    metrics = fitted.predictions["test"].compute_metrics(LABELS)
    for name, record in by_label.items():
        chosen, default = (
            getattr(record, key)["test"] for key in ("chosen", "default")
        )
        assert chosen.value < default.value
        assert metrics[f"recall/{name}"] == chosen.metrics["recall"]


@pytest.mark.parametrize(
    ("by", "rare_rows", "sentence"),
    [
        ("f1", 30, "30 in total, share a threshold, and are predicted from a"),
        ("f1", 12, "12 in total, have the threshold 0.5: b, c"),
        ("micro_f1", 12, "12 in total, have the threshold of all labels: b, c"),
    ],
)
def test_labels_with_few_positive_rows_are_named(caplog, by, rare_rows, sentence):
    predictions = draw_labels(2000, 0)
    labels, outputs = (
        np.repeat(v, [1, 2], axis=1) for v in (predictions.labels, predictions.outputs)
    )
    for column in (1, 2):
        labels[np.flatnonzero(labels[:, column])[rare_rows // 2 :], column] = 0
    task = TaskConfig(kind="multilabel", classes=["a", "b", "c"])
    rows = Predictions(predictions.ids, labels, outputs, predictions.losses)
    rule = DecisionConfig(maximize=by)
    fitted = fit(task, {"eval": rows, "test": rows}, decision=rule)
    (note,) = fitted.decision.notes
    assert note.startswith("labels with fewer than 20 positive rows in eval, ")
    assert sentence in note
    assert note.endswith(": b, c")
    assert note in caplog.text
    assert fitted.threshold[1] == fitted.threshold[2]
    assert (fitted.threshold[0] == fitted.threshold[1]) == (by == "micro_f1")
    metrics = fitted.predictions["test"].compute_metrics(task)
    for name in task.classes:
        measured = fitted.decision.labels[name].chosen["test"].metrics
        assert metrics[f"recall/{name}"] == measured["recall"]


def test_probability_that_is_nan_is_the_reason_for_the_default():
    rows = draw_labels(200, 0)
    rows.outputs[3, 1] = np.nan
    rule = DecisionConfig(min_precision=0.1)
    decided = fit(LABELS, {"eval": rows}, scales=False, decision=rule).decision
    assert decided.notes == []
    by = [record.by for record in decided.labels.values()]
    assert by == [
        "the highest recall with a precision of at least 0.1",
        "the default, because a probability is not finite",
    ]


def test_labels_that_do_not_reach_the_least_precision_are_named(caplog):
    predictions = draw_labels(500, 0)
    predictions.outputs[:, 1] = 0.3  # as precise as always predicting the label
    least = DecisionConfig(min_precision=0.9)
    fitted = fit(LABELS, {"eval": predictions}, decision=least)
    (note,) = fitted.decision.notes
    assert note.startswith(
        "no threshold reaches a precision of 0.9 on eval, so the one "
    )
    assert note.endswith("highest precision is used: threat")
    assert note in caplog.text


def test_temperature_of_certain_labels_divides_their_logits():
    """Float32 has no probability between that of a logit of 16 and 1."""
    logits = np.array([[18.0, -18.0], [4.0, -30.0]])
    outputs = special.expit(logits)
    rows = Predictions(np.arange(2), np.ones((2, 2), int), outputs, np.zeros(2))
    np.testing.assert_allclose(rows.scale(3).outputs, special.expit(logits / 3), 1e-6)
