"""Calibration, and the temperature."""

import math

import numpy as np
import pytest
from sklearn import metrics

from modules.evaluation import calibration


def draw(rows, temperature, classes=3, seed=0):
    """Returns labels that follow from logits, and the probabilities of others.

    Args:
      rows: Number of rows.
      temperature: What the logits of the probabilities must be divided by.
      classes: Number of classes.
      seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (rows, classes))
    true = calibration.scale(np.exp(logits), 1.0)
    labels = np.array([rng.choice(classes, p=row) for row in true])
    return labels, calibration.scale(true, 1 / temperature).astype(np.float32)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("classes", [2, 4])
def test_temperature_of_uncertain_and_too_certain_models_is_found(temperature, classes):
    labels, probabilities = draw(4000, temperature, classes)
    fitted = calibration.fit_temperature(labels, probabilities)
    assert fitted == pytest.approx(temperature, rel=0.1)


def test_scaled_probabilities_are_calibrated_on_other_rows_with_the_same_classes():
    fitted = calibration.fit_temperature(*draw(400, 3.0))
    labels, before = draw(2000, 3.0, seed=1)
    after = calibration.scale(before, fitted)
    assert (after.argmax(axis=1) == before.argmax(axis=1)).all()
    measured = calibration.measure(labels, before), calibration.measure(labels, after)
    assert measured[0].expected_calibration_error > 0.15
    assert measured[1].expected_calibration_error < 0.05
    assert measured[1].brier < measured[0].brier
    assert measured[1].loss < measured[0].loss


@pytest.mark.parametrize("rows", [10, 400])
def test_model_that_is_right_about_all_rows_keeps_its_doubts(rows):
    labels = np.arange(rows) % 2
    probabilities = np.where(np.eye(2)[labels] == 1, 0.9, 0.1)
    assert calibration.fit_temperature(labels, probabilities) > 0.2


def test_probability_of_zero_is_no_infinite_logit():
    labels, probabilities = np.array([0, 1, 1]), np.array([[1, 0], [1, 0], [0, 1.0]])
    assert math.isfinite(calibration.fit_temperature(labels, probabilities))
    assert np.isfinite(calibration.scale(probabilities, 2.0)).all()


def test_measures_are_those_of_scikit_learn():
    labels, probabilities = draw(500, 2.0, classes=2)
    measured = calibration.measure(labels, probabilities.astype(float))
    brier = metrics.brier_score_loss(labels, probabilities[:, 1])
    assert measured.brier == pytest.approx(2 * brier, rel=1e-5)
    loss = metrics.log_loss(labels, probabilities.astype(float))
    assert measured.loss == pytest.approx(loss, rel=1e-5)
    # Half of the rows with a probability of 0.75 are right.
    error = calibration.measure(np.array([0, 1] * 20), np.full((40, 2), [0.75, 0.25]))
    assert error.expected_calibration_error == pytest.approx(0.25)


def test_error_of_several_labels_is_that_of_the_probability_of_a_label():
    """The decision is right for 90 % of the labels, which hides the error."""
    labels = np.array([[1, 0, 0, 0, 0]] * 50 + [[0, 0, 0, 0, 0]] * 50)
    probabilities = np.tile([0.95, 0.05, 0.05, 0.05, 0.05], (100, 1))
    measured = calibration.measure(labels, probabilities)
    assert measured.expected_calibration_error == pytest.approx(
        0.2 * (0.95 - 0.5) + 0.8 * 0.05
    )
    low, *_, high = calibration.fill_bins(labels, probabilities)
    assert (low.rows, low.confidence, low.accuracy) == (400, pytest.approx(0.05), 0)
    assert (high.rows, high.confidence, high.accuracy) == (100, 0.95, 0.5)
    assert measured.brier == pytest.approx(
        2 * metrics.mean_squared_error(labels.ravel(), probabilities.ravel())
    )


def test_model_that_is_not_finite_has_no_temperature():
    labels, probabilities = draw(20, 2.0)
    probabilities[3] = math.nan
    assert calibration.fit_temperature(labels, probabilities) == 1.0
    assert math.isnan(calibration.measure(labels, probabilities).brier)
    bins = calibration.fill_bins(labels, probabilities)
    assert sum(row.rows for row in bins) == 19
