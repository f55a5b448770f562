"""The rows that a metric counts, and its interval, against simulations."""

import numpy as np
import pytest

from contracts import metrics
from modules.data import threshold_interval

BINARY = metrics.for_kind("binary", ["ham", "spam"])
THREE = metrics.for_kind("multiclass", ["a", "b", "c"])
SCORES = metrics.for_kind("regression")
ANY = {**SCORES, **BINARY}


@pytest.mark.parametrize(
    ("metric", "rows"),
    [
        ("accuracy", 400),
        ("matthews", 400),
        ("f1", 100),
        ("precision", 100),
        ("recall", 100),
        ("recall/ham", 300),
        ("auc", 100),
    ],
)
def test_rows_that_decide_a_metric_of_two_classes(metric, rows):
    count, _ = threshold_interval.count_rows(BINARY[metric], np.array([300, 100]))
    assert count == rows


def test_macro_f1_counts_as_many_rows_as_its_smallest_classes_allow():
    def count(*counts):
        return threshold_interval.count_rows(THREE["f1"], np.array(counts))[0]

    assert count(100, 100, 100) == 300
    assert count(1000, 1000, 10) < 100
    assert count(100, 100, 0) == 200


@pytest.mark.parametrize(("value", "rows"), [(0.85, 40), (0.5, 100), (0.99, 300)])
def test_interval_of_accuracy_holds_in_19_of_20_samples(value, rows):
    low, high = threshold_interval.find_interval(ANY["accuracy"], value, rows)
    samples = np.random.default_rng(0).binomial(rows, value, 10_000) / rows
    inside = np.mean((samples >= low - 0.5 / rows) & (samples <= high + 0.5 / rows))
    assert inside > 0.9


def test_interval_of_a_correlation_holds_in_19_of_20_samples():
    low, high = threshold_interval.find_interval(ANY["pearson"], 0.8, 50)
    random = np.random.default_rng(0)
    covariance = [[1, 0.8], [0.8, 1]]
    pairs = random.multivariate_normal([0, 0], covariance, (2000, 50))
    values = [np.corrcoef(sample.T)[0, 1] for sample in pairs]
    assert 0.93 < np.mean([low <= value <= high for value in values]) < 0.97


@pytest.mark.parametrize(
    ("metric", "rows", "interval"),
    [("accuracy", 0, (0, 1)), ("pearson", 3, (-1, 1)), ("matthews", 0, (-1, 1))],
)
def test_interval_of_too_few_rows_is_the_whole_range(metric, rows, interval):
    assert threshold_interval.find_interval(ANY[metric], 0.5, rows) == interval


@pytest.mark.parametrize("metric", ["accuracy", "f1", "spearman"])
@pytest.mark.parametrize("value", [0.05, 0.5, 0.9, 1.0])
def test_needed_rows_are_enough(metric, value):
    metric = ANY[metric]
    needed = threshold_interval.needed_rows(metric, value, 0.05)
    assert threshold_interval.half_width(metric, value, needed) <= 0.05
    assert threshold_interval.half_width(metric, value, needed // 2) > 0.05
