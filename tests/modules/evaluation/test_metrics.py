"""Metrics over all predictions of a split."""

import math

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from modules.config.task import TaskConfig
from modules.evaluation import metrics

BINARY = TaskConfig()
CLASSES = TaskConfig(classes=["a", "b", "c"])
SCORES = TaskConfig.model_validate({"label_range": [0.0, 5.0]})


def predictions(labels, outputs):
    labels = np.asarray(labels)
    losses = np.arange(len(labels), dtype=np.float32)
    return metrics.Predictions(
        np.arange(len(labels)), labels, np.asarray(outputs), losses
    )


def test_binary_metrics_equal_counts_by_hand():
    # 3 true positives, 1 false positive, 2 false negatives, 2 true negatives.
    labels = [1, 1, 1, 0, 1, 1, 0, 0]
    positive = np.array([0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1])
    outputs = np.stack([1 - positive, positive], axis=-1)
    actual = metrics.compute(BINARY, predictions(labels, outputs))
    assert actual["accuracy"] == pytest.approx(5 / 8)
    assert actual["precision"] == pytest.approx(3 / 4)
    assert actual["recall"] == pytest.approx(3 / 5)
    assert actual["f1"] == pytest.approx(2 / 3)
    assert actual["matthews"] == pytest.approx(4 / math.sqrt(4 * 5 * 3 * 4))
    assert actual["auc"] == pytest.approx(13 / 15)
    assert actual["loss"] == pytest.approx(3.5)


def test_constant_class_has_zero_f1_and_correlation():
    outputs = np.tile([0.9, 0.1], (4, 1))
    actual = metrics.compute(BINARY, predictions([0, 1, 0, 1], outputs))
    assert (actual["f1"], actual["matthews"], actual["accuracy"]) == (0, 0, 0.5)


def test_macro_f1_is_the_mean_of_the_classes_that_occur():
    outputs = np.eye(3)[[0, 0, 1, 1]]
    actual = metrics.compute(CLASSES, predictions([0, 0, 1, 0], outputs))
    assert actual["accuracy"] == pytest.approx(3 / 4)
    assert actual["f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)


@pytest.mark.parametrize("task", [BINARY, CLASSES])
def test_metrics_of_each_class_equal_those_of_scikit_learn(task):
    random = np.random.default_rng(0)
    outputs = random.dirichlet(np.ones(task.outputs), 50)
    labels = random.integers(0, task.outputs, 50)
    actual = metrics.compute(task, predictions(labels, outputs))
    report = sklearn_metrics.classification_report(
        labels, outputs.argmax(1), target_names=task.classes, output_dict=True
    )
    for name in task.classes:
        assert actual[f"precision/{name}"] == report[name]["precision"]
        assert actual[f"recall/{name}"] == report[name]["recall"]
        assert actual[f"f1/{name}"] == report[name]["f1-score"]


def test_class_that_never_occurs_and_is_never_predicted_has_metrics_of_0():
    outputs = np.eye(3)[[0, 0, 1, 1]]
    actual = metrics.compute(CLASSES, predictions([0, 1, 1, 0], outputs))
    assert {actual[f"{kind}/c"] for kind in ("precision", "recall", "f1")} == {0}


def test_scores_are_correlated():
    labels = np.array([0, 1, 2, 3], np.float32)
    actual = metrics.compute(SCORES, predictions(labels, labels**2))
    assert actual["spearman"] == pytest.approx(1)
    assert actual["pearson"] == pytest.approx(np.corrcoef(labels, labels**2)[0, 1])
    assert actual["pearson_spearman"] == pytest.approx((1 + actual["pearson"]) / 2)
    assert actual["mse"] == pytest.approx(np.mean((labels - labels**2) ** 2))


def test_constant_scores_rank_below_any_other():
    actual = metrics.compute(SCORES, predictions([0.0, 1.0], [2.0, 2.0]))
    assert math.isnan(actual["pearson_spearman"])
    assert metrics.score(actual["pearson_spearman"]) < metrics.score(-1.0)


@pytest.mark.parametrize("task", [BINARY, CLASSES, SCORES])
def test_every_metric_of_the_task_is_computed(task):
    random = np.random.default_rng(0)
    outputs = random.random((9, task.outputs)).astype(np.float32)
    labels = np.arange(9) % task.outputs
    if task.is_regression:
        outputs, labels = outputs[:, 0], random.random(9).astype(np.float32)
    actual = metrics.compute(task, predictions(labels, outputs))
    assert set(task.metrics) <= set(actual)


@pytest.mark.parametrize("task", [BINARY, CLASSES, SCORES])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_every_metric_of_outputs_that_are_not_finite_is_nan(task, bad):
    labels = np.arange(9) % task.outputs
    outputs = np.full((9, task.outputs), 0.5, np.float32)
    outputs[4] = bad
    values = metrics.compute(
        task, predictions(labels, outputs[:, 0] if task.is_regression else outputs)
    )
    assert set(values) == {"loss", *task.metrics}
    assert all(math.isnan(value) for value in values.values())
