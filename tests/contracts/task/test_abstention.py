"""Rows without a class, and the accuracy of the others."""

import math

import numpy as np
import pytest

from contracts.task import abstention

NAN = math.nan
# A threshold of 0.3 predicts the class 1 for the second row.
PROBABILITIES = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8], [NAN, NAN]])
PREDICTED = np.array([0, 1, 1, 1, NAN])
LABELS = np.array([0, 0, 1, 0, 0])


def test_probability_of_the_predicted_class_counts():
    none = [False, False, False, False, True]
    for least, expected in (
        (0.3, none),
        (0.5, [False, True, False, False, True]),
        (0.7, [False, True, False, False, True]),
        (0.75, [False, True, True, False, True]),
        (1.0, [True] * 5),
    ):
        is_abstained = abstention.abstains(PROBABILITIES, PREDICTED, least)
        assert is_abstained.tolist() == expected


def test_probability_in_32_bits_reaches_the_same_number():
    probabilities = np.array([[0.3, 0.7]], np.float32)
    assert not abstention.abstains(probabilities, np.array([1]), 0.7).any()


def test_accuracy_is_that_of_the_rows_with_a_class():
    points = [
        abstention.measure(LABELS, PROBABILITIES, PREDICTED, least)
        for least in (0.3, 0.5, 0.85, 0.95)
    ]
    assert [point.abstained for point in points] == [1, 2, 4, 5]
    assert [point.accuracy for point in points] == pytest.approx(
        [0.5, 2 / 3, 1.0, NAN], nan_ok=True
    )


def test_curve_has_a_point_for_each_probability():
    random = np.random.default_rng(0)
    probabilities = random.dirichlet([1, 1, 1], 200).round(1)
    predicted = probabilities.argmax(axis=1).astype(float)
    probabilities[:7], predicted[:7] = NAN, NAN
    labels = random.integers(0, 3, 200)
    shares, accuracies = abstention.curve(labels, probabilities, predicted)
    least = np.unique(probabilities[7:].max(axis=1))
    points = [
        abstention.measure(labels, probabilities, predicted, value) for value in least
    ]
    assert shares.tolist() == pytest.approx([p.abstained / 200 for p in points])
    assert accuracies.tolist() == pytest.approx([p.accuracy for p in points])
    assert shares[0] == pytest.approx(7 / 200)


def test_curve_of_outputs_that_are_not_finite_is_empty():
    shares, accuracies = abstention.curve(LABELS, PROBABILITIES * NAN, PREDICTED * NAN)
    assert not len(shares)
    assert not len(accuracies)
