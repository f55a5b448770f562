"""The threshold that a decision leads to."""

import math

import numpy as np
import pydantic
import pytest

from modules import metrics
from modules.config.decision import DecisionConfig
from modules.config.task import TaskConfig
from modules.evaluation import decision

CLASSES = ["no", "yes"]


def draw(rows, seed=0, share=0.3):
    """Returns labels and calibrated probabilities, few of them positive."""
    rng = np.random.default_rng(seed)
    positive = rng.beta(2 * share, 2 * (1 - share), rows)
    labels = (rng.random(rows) < positive).astype(int)
    return labels, np.stack([1 - positive, positive], axis=1)


def choose(settings, labels, probabilities):
    config = DecisionConfig.model_validate(settings)
    return decision.choose_threshold(CLASSES, config, labels, probabilities)


@pytest.mark.parametrize("metric", ["f1", "matthews", "accuracy", "f1/no"])
def test_metric_is_highest_at_the_threshold(metric):
    labels, probabilities = draw(300)
    chosen, points = choose({"maximize": metric}, labels, probabilities)
    rows = metrics.Rows.of(labels, probabilities, threshold=chosen.threshold)
    value = metrics.compute(CLASSES, rows, [metric])[metric]
    assert chosen.value == pytest.approx(value)
    assert chosen.value == max(point.value for point in points)
    default = metrics.compute(CLASSES, metrics.Rows.of(labels, probabilities), [metric])
    assert value >= default[metric]


def test_cost_decides_between_both_errors():
    labels, probabilities = draw(4000)
    for positive, negative in ((1, 1), (1, 5), (5, 1)):
        costs = {"false_positive": positive, "false_negative": negative}
        chosen, _ = choose({"costs": costs}, labels, probabilities)
        # Of calibrated probabilities, the threshold is known (Elkan 2001, section 2).
        expected = positive / (positive + negative)
        assert chosen.threshold == pytest.approx(expected, abs=0.08)


def test_least_precision_holds_with_the_highest_recall():
    labels, probabilities = draw(500)
    chosen, points = choose({"min_precision": 0.9}, labels, probabilities)
    assert chosen.metrics["precision"] >= 0.9
    enough = [p.value for p in points if p.metrics["precision"] >= 0.9]
    assert chosen.value == chosen.metrics["recall"] == max(enough)


def test_precision_that_no_threshold_has_leads_to_the_highest():
    labels = np.array([0, 1] * 20)
    probabilities = np.tile([[0.4, 0.6], [0.3, 0.7]], (20, 1))[:, ::-1]
    chosen, points = choose({"min_precision": 0.99}, labels, probabilities)
    assert chosen.metrics["precision"] == max(p.metrics["precision"] for p in points)


def test_probabilities_that_are_all_equal_or_not_finite_keep_one_half():
    labels, equal = np.array([0, 1]), np.array([[0.5, 0.5]] * 2)
    for probabilities in (equal, np.full((2, 2), math.nan)):
        chosen, _ = choose({"maximize": "f1"}, labels, probabilities)
        assert chosen.threshold == 0.5


def test_many_rows_have_a_bounded_number_of_thresholds():
    chosen, points = choose({"maximize": "f1"}, *draw(5000))
    assert len(points) <= 201
    assert [p.threshold for p in points] == sorted(p.threshold for p in points)
    assert chosen in points


def test_best_threshold_of_few_positive_rows_is_found_among_all():
    rng = np.random.default_rng(0)
    labels = (np.arange(50_000) < 100).astype(int)
    positive = np.where(labels == 1, rng.beta(4, 2, 50_000), rng.beta(1, 30, 50_000))
    probabilities = np.stack([1 - positive, positive], axis=1)
    chosen, _ = choose({"maximize": "f1"}, labels, probabilities)
    thresholds = np.sort(positive[labels == 1]) - 1e-7
    best = max(
        metrics.compute(
            CLASSES, metrics.Rows.of(labels, probabilities, threshold=t), ["f1"]
        )["f1"]
        for t in thresholds
    )
    assert chosen.value == pytest.approx(best, abs=1e-3)


def test_threshold_is_not_within_the_rounding_of_a_row():
    positive = np.array([0.3, 0.3 + 1e-9, 0.7, 0.7 + 1e-9] * 10)
    labels = np.array([0, 1, 0, 1] * 10)
    probabilities = np.stack([1 - positive, positive], axis=1)
    chosen, points = choose({"maximize": "f1"}, labels, probabilities)
    assert {point.threshold for point in points} == {0.5}
    assert chosen.threshold == 0.5


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"decision": {}}, "nothing is set; set one of maximize, costs and min_prec"),
        (
            {"decision": {"maximize": "f1", "min_precision": 0.9}},
            "maximize and min_precision is set",
        ),
        ({"decision": {"maximize": "auc"}}, "'auc' is not one of accuracy, precision"),
        ({"decision": {"min_precision": 1.5}}, "less than or equal to 1"),
        (
            {"decision": {"maximize": "f1"}, "classes": ["a", "b", "c"]},
            "chooses between two classes; the task has 3 classes",
        ),
        (
            {"decision": {"maximize": "f1"}, "label_range": [0.0, 1.0]},
            "the task has a score and no classes",
        ),
    ],
)
def test_decision_that_cannot_be_made_is_refused(task, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        TaskConfig.model_validate(task)
