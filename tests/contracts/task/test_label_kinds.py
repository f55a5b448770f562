"""What follows from the kind of a label."""

import numpy as np
import pytest
from scipy import special
from sklearn.utils.class_weight import compute_class_weight

from contracts.task.definition import TaskConfig, find_described_kind

CLASSES = TaskConfig(classes=["a", "b", "c"]).label_kind
TWO = TaskConfig(classes=["no", "yes"]).label_kind
LABELS = TaskConfig(kind="multilabel", classes=["a", "b", "c"]).label_kind
SCORE = TaskConfig(label_range=[1.0, 5.0]).label_kind
ALL = [CLASSES, TWO, LABELS, SCORE]


@pytest.mark.parametrize("kind", ALL)
def test_description_of_a_label_is_read_back(kind):
    for label in {CLASSES: [0, 2], TWO: [1], SCORE: [1.25]}.get(
        kind, [[0, 0, 0], [1, 0, 1]]
    ):
        assert kind.parse_description(kind.describe(label)) == label


@pytest.mark.parametrize("kind", ALL)
def test_output_that_is_not_finite_is_described_as_nan(kind):
    label = [np.nan] * 3 if kind is LABELS else np.nan
    assert kind.describe(label) == "nan"


def test_kind_of_a_model_is_that_of_its_task():
    for kind, settings in (
        (LABELS, {"kind": "multilabel", "classes": ["a", "b", "c"]}),
        (TWO, {"classes": ["no", "yes"], "label_range": None}),
        (SCORE, {"classes": None, "label_range": [1, 5]}),
    ):
        assert find_described_kind(settings) == kind


@pytest.mark.parametrize(
    ("kind", "values", "label"),
    [
        (CLASSES, [2], 2),
        (CLASSES, [3], None),
        (CLASSES, [1.0], None),
        (CLASSES, [0, 1], None),
        (LABELS, [0, 1, 1], [0, 1, 1]),
        (LABELS, [0, 1], None),
        (LABELS, [0, 1, 2], None),
        (SCORE, [5.0], 5.0),
        (SCORE, [5.1], None),
        (SCORE, [], None),
    ],
)
def test_values_of_an_example_are_read_if_the_task_allows_them(kind, values, label):
    assert kind.read(values) == label


def test_probabilities_are_those_of_scipy():
    logits = np.array([[800.0, -800.0, 0.0], [1.0, -25.0, -3.0]], np.float32)
    np.testing.assert_allclose(
        CLASSES.from_logits(logits, 2.0), special.softmax(logits / 2, axis=1), 1e-6
    )
    np.testing.assert_allclose(
        LABELS.from_logits(logits, 0.5), special.expit(logits.astype(float) / 0.5)
    )
    assert SCORE.from_logits(logits[:, :1], 2.0).tolist() == [800.0, 1.0]


def test_balanced_weights_are_those_of_scikit_learn():
    labels = np.array([0, 0, 0, 1, 2, 2])
    rows = np.bincount(CLASSES.group_ids(labels)).astype(float)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    np.testing.assert_allclose(CLASSES.balance(rows), expected)


def test_weight_of_a_label_is_the_ratio_of_the_rows_without_and_with_it():
    labels = np.array([[1, 0, 1], [0, 0, 1], [0, 1, 1], [0, 0, 1]])
    rows = np.bincount(LABELS.group_ids(labels), minlength=6).astype(float)
    assert rows.tolist() == [3, 3, 0, 1, 1, 4]
    assert LABELS.balance(rows).tolist() == [1, 1, 1, 3, 3, 0.05]
    assert LABELS.name_weights([1, 1, 1, 3, 3, 2]) == {"a": 3, "b": 3, "c": 2}


def test_prediction_has_changed_by_class_by_label_or_by_a_tenth_of_the_range():
    change, is_changed = TWO.compare(
        np.array([[0.6, 0.4], [0.3, 0.7]]), np.array([[0.4, 0.6], [0.2, 0.8]]), None
    )
    np.testing.assert_allclose(change, [0.2, 0.1])
    assert is_changed.tolist() == [True, False]
    change, is_changed = LABELS.compare(
        np.array([[0.6, 0.1, 0.1]]), np.array([[0.6, 0.4, 0.1]]), [0.5, 0.3, 0.5]
    )
    assert (change.tolist(), is_changed.tolist()) == ([0.30000000000000004], [True])
    change, is_changed = SCORE.compare(np.array([1.0, 2]), np.array([1.3, 2.5]), None)
    assert is_changed.tolist() == [False, True]


def test_scores_have_no_model_that_always_predicts_the_same():
    assert list(SCORE.constant_models(np.array([1.0, 2.0]), ["mse"])) == []
    assert SCORE.majority_metrics(np.array([1.0]), {"1": 1}, "pearson") == {}
