"""The threshold that a decision leads to."""

import math

import numpy as np
import pydantic
import pytest

from contracts import metrics
from contracts.task.decision import DecisionConfig
from contracts.task.definition import TaskConfig
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


def every_decision(positive):
    """Returns the predictions of each threshold, from all rows to none."""
    return [positive >= value for value in np.unique(positive)] + [positive < -1]


def value_of(settings, labels, predicted):
    """Returns what a decision is best by, as loops over the definitions compute it."""
    pairs = list(zip(labels.tolist(), predicted.tolist(), strict=True))
    right, wrong = pairs.count((1, True)), pairs.count((0, True))
    missed, other = pairs.count((1, False)), pairs.count((0, False))
    if "costs" in settings:
        costs = settings["costs"]
        cost = costs["false_positive"] * wrong + costs["false_negative"] * missed
        return -cost / len(pairs)
    if "min_precision" in settings:
        precision = right / max(right + wrong, 1)
        is_enough = precision >= settings["min_precision"]
        return is_enough, is_enough or precision, right
    product = (right + wrong) * (right + missed) * (other + wrong) * (other + missed)
    return {
        "accuracy": (right + other) / len(pairs),
        "f1": 2 * right / max(2 * right + wrong + missed, 1),
        "f1/no": 2 * other / max(2 * other + wrong + missed, 1),
        "matthews": (right * other - wrong * missed) / product**0.5 if product else 0,
    }[settings["maximize"]]


RULES = [
    *({"maximize": name} for name in ("f1", "matthews", "accuracy", "f1/no")),
    *(
        {"costs": {"false_positive": positive, "false_negative": negative}}
        for positive, negative in ((1, 1), (50, 1), (1, 50), (0.3, 1000), (7e307, 1e2))
    ),
    *({"min_precision": least} for least in (0.1, 0.5, 0.8, 1.0)),
]


def draw_hard(seed):
    """Returns labels and float32 probabilities: few rows, ties, and exact 0 and 1."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 40))
    labels = (rng.random(rows) < rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])).astype(int)
    logits = rng.normal(rng.choice([-3, 0, 3]), 1, rows) + labels
    kind = seed % 5
    if kind == 1:  # exactly 1
        logits = logits * 30
    elif kind == 2:  # neighbors in float32
        steps = rng.integers(0, 4, rows)
        return labels, (np.float32(0.7) + steps * np.float32(2**-24)).astype(np.float32)
    elif kind == 3:  # neighbors of 1
        return labels, np.float32(1) - rng.integers(0, 3, rows) * np.float32(2**-24)
    positive = (1 / (1 + np.exp(-logits))).astype(np.float32)
    return labels, np.round(positive, 1) if kind == 4 else positive


@pytest.mark.parametrize("settings", RULES, ids=str)
def test_no_threshold_is_better_than_the_chosen_one(settings):
    for seed in range(150):
        labels, positive = draw_hard(seed)
        probabilities = np.stack([1 - positive, positive], axis=1)
        chosen, points = choose(settings, labels, probabilities)
        # As the exported graph compares them.
        predicted = positive >= np.float32(chosen.threshold)
        value = value_of(settings, labels, predicted)
        best = max(value_of(settings, labels, p) for p in every_decision(positive))
        assert value == pytest.approx(best, rel=1e-9), seed
        rows = metrics.Rows.of(labels, probabilities, threshold=chosen.threshold)
        np.testing.assert_array_equal(rows.predictions, predicted)
        assert chosen in points
        if "maximize" in settings:
            assert chosen.value == pytest.approx(value)
        if "costs" in settings:
            assert chosen.value == pytest.approx(-value)


@pytest.mark.parametrize(
    ("positive", "costs", "threshold"),
    [
        ([0.9, 1.0], (50, 1), np.nextafter(np.float32(1), np.float32(2))),  # none
        ([0.1, 0.4], (50, 1), 0.5),  # none, too
        ([0.1, 0.4], (1, 50), 0.0),  # all
        ([0.6, 0.9], (1, 50), 0.5),  # all, too
    ],
)
def test_none_and_all_are_predicted_if_that_costs_least(positive, costs, threshold):
    labels = np.array([1, 0] * 10)
    probabilities = np.tile([[1 - p, p] for p in positive], (10, 1)).astype(np.float32)
    names = ("false_positive", "false_negative")
    settings = {"costs": dict(zip(names, costs, strict=True))}
    chosen, _ = choose(settings, labels, probabilities)
    assert chosen.threshold == threshold
    assert chosen.value == 0.5 * min(costs)


def test_probabilities_that_are_all_equal_or_not_finite_keep_one_half():
    labels, equal = np.array([0, 1]), np.array([[0.5, 0.5]] * 2)
    for probabilities in (equal, np.full((2, 2), math.nan)):
        chosen, _ = choose({"maximize": "f1"}, labels, probabilities)
        assert chosen.threshold == 0.5


def f1(labels, predicted):
    return 2 * (labels * predicted).sum() / (labels.sum() + predicted.sum())


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
    best = max(f1(labels, positive >= cut) for cut in positive[labels == 1])
    assert chosen.value == pytest.approx(best, abs=1e-3)


def test_threshold_is_not_within_the_rounding_of_a_row():
    positive = np.array([0.3, 0.3 + 1e-9, 0.7, 0.7 + 1e-9] * 10)
    labels = np.array([0, 1, 0, 1] * 10)
    probabilities = np.stack([1 - positive, positive], axis=1)
    chosen, points = choose({"maximize": "f1"}, labels, probabilities)
    assert [round(point.threshold, 6) for point in points] == [0, 0.5, 1]
    assert chosen.threshold == 0  # an F1 of 2/3 instead of 1/2


F1 = DecisionConfig(maximize="f1")


def draw_labels(*positive_rows, rows=400, seed=0):
    """Returns labels with this many positive rows each, and their probabilities."""
    rng = np.random.default_rng(seed)
    labels = np.zeros((rows, len(positive_rows)), int)
    for column, count in enumerate(positive_rows):
        labels[rng.permutation(rows)[:count], column] = 1
    logits = rng.normal(-2, 1, labels.shape) + 2 * labels
    return labels, (1 / (1 + np.exp(-logits))).astype(np.float32)


def test_rare_labels_share_a_threshold_that_is_best_on_all_their_rows():
    labels, probabilities = draw_labels(100, 19, 20, 1, 0)
    points, rare = decision.choose_label_thresholds(F1, labels, probabilities)
    assert rare == [1, 3, 4]
    assert points[1] == points[3] == points[4]
    for index in (0, 2):
        rows = (labels[:, index], metrics.of_two_classes(probabilities[:, index]))
        assert points[index] == choose({"maximize": "f1"}, *rows)[0]
    cells = labels[:, rare], probabilities[:, rare]
    best = max(f1(cells[0], cells[1] >= cut) for cut in np.unique(cells[1]))
    shared = f1(cells[0], cells[1] >= points[1].threshold)
    assert shared == pytest.approx(best)
    thresholds = decision.find_threshold(F1, labels, probabilities)
    assert thresholds == [point.threshold for point in points]


@pytest.mark.parametrize(
    ("positive_rows", "shared"),
    [
        ([5], 0.5),  # one label
        ([0, 0], 0.5),
        ([10, 9], 0.5),  # all are rare
        ([100, 19], 0.5),  # one is rare
        ([100, 10, 10], None),
        ([1] * 20, None),
    ],
)
def test_rare_labels_with_few_positive_rows_together_have_one_half(
    positive_rows, shared
):
    labels, probabilities = draw_labels(*positive_rows)
    points, rare = decision.choose_label_thresholds(F1, labels, probabilities)
    assert rare == [i for i, rows in enumerate(positive_rows) if rows < 20]
    (threshold,) = {points[index].threshold for index in rare}
    assert threshold == shared if shared else threshold != 0.5


def test_highest_micro_f1_takes_the_best_threshold_for_all_labels_together():
    labels, probabilities = draw_labels(100, 19, 20, 1, 0)
    micro = DecisionConfig(maximize="micro_f1")
    thresholds = decision.find_threshold(micro, labels, probabilities)
    assert len(thresholds) == 5
    assert len(set(thresholds)) == 1
    best = max(f1(labels, probabilities >= cut) for cut in np.unique(probabilities))
    assert f1(labels, probabilities >= thresholds[0]) == pytest.approx(best)
    _, rare = decision.choose_label_thresholds(micro, labels, probabilities)
    assert rare == [1, 3, 4]


def test_threshold_of_a_rare_label_predicts_about_as_many_rows_as_have_it():
    """One positive row with a low probability assigned the label to nearly all rows."""
    labels, probabilities = draw_labels(100, 12, 9, 1)
    probabilities[labels[:, 3] == 1, 3] = 1e-4
    thresholds = decision.find_threshold(F1, labels, probabilities)
    assert (probabilities >= thresholds)[:, 3].mean() < 0.1


def test_label_without_finite_probabilities_keeps_one_half():
    labels, probabilities = draw_labels(100, 100, 15, 15)
    probabilities[0, 1] = np.nan
    probabilities[7, 3] = np.inf
    thresholds = decision.find_threshold(F1, labels, probabilities)
    assert thresholds[0] != 0.5
    assert thresholds[1:] == [0.5, 0.5, 0.5]


def test_highest_precision_is_of_the_most_rows():
    """All thresholds from 0.45 to 0.95 have a precision of 1/2."""
    labels = np.array([0, 1] * 10 + [0] * 20)
    positive = np.array([0.9, 0.9, 0.7, 0.7, 0.5, 0.5] * 3 + [0.5, 0.5] + [0.1] * 20)
    rows = labels, metrics.of_two_classes(positive)
    chosen, _ = choose({"min_precision": 0.6}, *rows)
    assert 0.1 < chosen.threshold <= 0.5
    assert chosen.metrics["recall"] == 1


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"decision": {}}, "nothing is set; set one of maximize, costs and min_prec"),
        (
            {"decision": {"maximize": "f1", "min_precision": 0.9}},
            "maximize and min_precision is set",
        ),
        ({"decision": {"maximize": "auc"}}, "'auc'; allowed: accuracy, f1, matt"),
        *(
            ({"decision": {"maximize": name}}, f"{name}'.*set min_precision, such as")
            for name in ("recall", "precision", "recall/equivalent")
        ),
        *(
            (
                {"decision": {"costs": {"false_positive": 1, "false_negative": cost}}},
                f"costs.false_negative\\n.*{message}",
            )
            for cost, message in (
                (math.inf, "finite number"),
                (math.nan, "finite number"),
                (0, "greater than 0"),
                (-1, "greater than 0"),
            )
        ),
        ({"decision": {"min_precision": math.nan}}, "finite number"),
        ({"decision": {"min_precision": 1.5}}, "less than or equal to 1"),
        (
            {"decision": {"maximize": "f1"}, "classes": ["a", "b", "c"]},
            "chooses between two classes, but the task has 3 classes",
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
