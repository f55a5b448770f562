"""The threshold that a model in training is evaluated at."""

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from contracts.metrics import of_two_classes
from contracts.task.definition import TaskConfig
from modules.evaluation.decision import selection_threshold
from modules.evaluation.prediction_files import Predictions

CLASSES = ["ham", "spam"]
LABELS = ["same", "cat", "rare"]


def draw(shape, shift, seed=0):
    """Returns labels, and probabilities that are low for all but depend on them."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(shape) < 0.2).astype(int)
    logits = rng.normal(labels * 1.5 - shift, 1.0)
    return labels, 1 / (1 + np.exp(-logits))


def evaluate(task, labels, outputs):
    """Returns the deciding metric as a training does."""
    threshold = selection_threshold(task, labels, outputs)
    rows = Predictions(
        np.arange(len(labels)), labels, outputs, np.zeros(len(labels)), threshold
    )
    return rows.compute_metrics(task)[task.metric]


def best(score, labels, probabilities):
    """Returns the highest score of all cuts, by brute force."""
    cuts = [0, *np.unique(probabilities)]
    return max(score(labels, probabilities >= cut) for cut in cuts)


def f1(labels, predicted):
    return 2 * (labels * predicted).sum() / max(labels.sum() + predicted.sum(), 1)


@pytest.mark.parametrize("shift", [0.0, 6.0, -6.0])
@pytest.mark.parametrize(
    ("metric", "score"),
    [
        ("f1", f1),
        ("f1/spam", f1),
        ("f1/ham", lambda labels, predicted: f1(1 - labels, ~predicted)),
        ("matthews", sklearn_metrics.matthews_corrcoef),
    ],
)
def test_metric_of_two_classes_is_that_of_its_best_threshold(metric, score, shift):
    task = TaskConfig(classes=CLASSES, metric=metric)
    labels, positive = draw(200, shift)
    expected = best(score, labels, positive)
    assert evaluate(task, labels, of_two_classes(positive)) == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["precision", "recall/spam"])
def test_precision_and_recall_are_those_at_the_threshold_for_f1(metric):
    labels, positive = draw(200, 3.0)
    outputs = of_two_classes(positive)
    thresholds = [
        selection_threshold(TaskConfig(classes=CLASSES, metric=name), labels, outputs)
        for name in (metric, "f1")
    ]
    assert thresholds[0] == thresholds[1]


@pytest.mark.parametrize(
    "task",
    [
        TaskConfig(classes=CLASSES, metric="accuracy"),
        TaskConfig(classes=CLASSES, metric="auc"),
        TaskConfig(classes=["a", "b", "c"], metric="f1"),
        TaskConfig(kind="multilabel", classes=LABELS, metric="auc/cat"),
    ],
)
def test_metric_without_a_threshold_needs_none(task):
    labels, outputs = draw((50, task.outputs), 0.0)
    labels = labels if task.kind else labels[:, 0]
    assert selection_threshold(task, labels, outputs) is None


@pytest.mark.parametrize("shift", [0.0, 6.0])
def test_metric_of_several_labels_is_that_of_the_best_threshold(shift):
    labels, outputs = draw((200, 3), shift)
    by_label = [best(f1, *column) for column in zip(labels.T, outputs.T, strict=True)]
    expected = {
        "f1/rare": by_label[2],
        "macro_f1": np.mean(by_label),
        "micro_f1": best(f1, labels.ravel(), outputs.ravel()),
    }
    for metric, value in expected.items():
        task = TaskConfig(kind="multilabel", classes=LABELS, metric=metric)
        assert evaluate(task, labels, outputs) == pytest.approx(value)


def test_decision_of_the_task_changes_no_evaluation():
    labels, outputs = draw((200, 3), 4.0)
    costs = {"costs": {"false_positive": 50, "false_negative": 1}}
    values = {
        evaluate(
            TaskConfig(kind="multilabel", classes=LABELS, decision=decision),
            labels,
            outputs,
        )
        for decision in (None, {"maximize": "accuracy"}, costs)
    }
    assert len(values) == 1
