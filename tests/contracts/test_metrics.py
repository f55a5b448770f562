"""Each metric of the table against scikit-learn and SciPy, weighted and not."""

import math

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics as sklearn_metrics

from contracts import metrics
from contracts.metrics import Rows, Sample
from contracts.task.definition import find_kind

ROWS = 200
BINARY = ("ham", "spam")
CLASSES = ("a", "b", "c", "never")
TASKS = {"binary": BINARY, "multiclass": CLASSES, "regression": None}


def simulate(classes):
    """Returns labels and outputs with ties; a fourth class never occurs."""
    random = np.random.default_rng(0)
    if classes is None:
        labels = random.integers(0, 6, ROWS) / 1.0
        return labels, np.round(labels + random.normal(size=ROWS), 1)
    count = min(len(classes), 3)
    labels = random.integers(0, count, ROWS)
    outputs = np.zeros((ROWS, len(classes)))
    outputs[:, :count] = np.round(random.dirichlet(np.ones(count), ROWS), 2)
    outputs[:, 0] += 1 - outputs.sum(axis=1)
    return labels, outputs


def of_class(kind):
    """Returns scikit-learn's metric of one class, the positive one of two."""

    def compute(labels, outputs, weights, class_id):
        function = getattr(sklearn_metrics, f"{kind}_score")
        (value,) = function(
            labels,
            outputs.argmax(1),
            labels=[metrics.POSITIVE_CLASS if class_id is None else class_id],
            average=None,
            sample_weight=weights,
            zero_division=0.0,
        )
        return value

    return compute


def pearson(labels, scores, weights, _=None):
    covariance = np.cov(labels, scores, aweights=weights)
    return covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])


def spearman(labels, scores, weights, _=None):
    """SciPy's; a weight repeats its row."""
    repeats = weights.astype(int)
    return scipy.stats.spearmanr(
        np.repeat(labels, repeats), np.repeat(scores, repeats)
    ).statistic


def classified(function, **options):
    return lambda labels, outputs, weights, _: function(
        labels, outputs.argmax(1), sample_weight=weights, **options
    )


def scored(function):
    return lambda labels, scores, weights, _: function(
        labels, scores, sample_weight=weights
    )


def loss(labels, outputs, weights, _):
    if outputs.ndim == 1:
        return sklearn_metrics.mean_squared_error(
            labels, outputs, sample_weight=weights
        )
    likelihoods = np.maximum(outputs[np.arange(len(labels)), labels], 1e-7)
    return np.average(-np.log(likelihoods), weights=weights)


# By kind and name; those of all kinds and of one class by name alone.
REFERENCES = {
    "loss": loss,
    "accuracy": classified(sklearn_metrics.accuracy_score),
    "precision": of_class("precision"),
    "recall": of_class("recall"),
    "f1": of_class("f1"),
    ("multiclass", "f1"): classified(sklearn_metrics.f1_score, average="macro"),
    "auc": lambda labels, outputs, weights, _: sklearn_metrics.roc_auc_score(
        labels, outputs[:, 1], sample_weight=weights
    ),
    "matthews": classified(sklearn_metrics.matthews_corrcoef),
    "calibration": lambda labels, outputs, weights, _: (
        np.average(outputs[:, 1], weights=weights)
        / np.average(labels == 1, weights=weights)
    ),
    "pearson_spearman": lambda *arguments: (
        (pearson(*arguments) + spearman(*arguments)) / 2
    ),
    "pearson": pearson,
    "spearman": spearman,
    "mse": scored(sklearn_metrics.mean_squared_error),
    "mae": scored(sklearn_metrics.mean_absolute_error),
}


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind, classes in TASKS.items()
        for name in find_kind(None, classes, None).metric_table
    ],
)
def test_metric_of_the_table_equals_that_of_scikit_learn(kind, name, is_weighted):
    classes = TASKS[kind]
    metric = find_kind(None, classes, None).metric_table[name]
    labels, outputs = simulate(classes)
    weights = np.ones((ROWS, 2))
    if is_weighted:
        weights = np.random.default_rng(1).integers(0, 4, (ROWS, 2)).astype(float)
    actual = metric.values(Sample(Rows.of(labels, outputs), weights))
    bare = name.partition("/")[0]
    reference = REFERENCES[bare]
    if (kind, name) in REFERENCES:
        reference = REFERENCES[kind, name]
    for value, column in zip(actual, weights.T, strict=True):
        expected = reference(labels, outputs, column, metric.class_id)
        assert value == pytest.approx(expected, abs=1e-12)
        assert metric.low <= value <= metric.high


LABELS = ("rude", "threat", "never")


def simulate_labels():
    """Returns several labels or none for each row, and probabilities with ties."""
    random = np.random.default_rng(0)
    labels = (random.random((ROWS, 3)) < [0.4, 0.1, 0]).astype(int)
    noise = random.normal(scale=0.3, size=labels.shape)
    return labels, np.round(np.clip(0.3 + 0.4 * labels + noise, 0, 1), 2)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_metrics_of_several_labels_equal_those_of_scikit_learn(is_weighted):
    labels, outputs = simulate_labels()
    thresholds = [0.5, 0.3, 0.6]
    predicted = (outputs >= thresholds).astype(int)
    weights = np.ones(ROWS)
    if is_weighted:
        weights = np.random.default_rng(1).integers(0, 4, ROWS).astype(float)
    sample = Sample(Rows.of(labels, outputs, threshold=thresholds), weights[:, None])
    actual = {
        name: metric.values(sample)[0]
        for name, metric in metrics.for_kind("multilabel", LABELS).items()
    }
    options = {"sample_weight": weights, "zero_division": 0.0}
    expected = {
        "loss": np.mean(
            [
                sklearn_metrics.log_loss(
                    labels[:, c],
                    np.clip(outputs[:, c], 1e-7, 1 - 1e-7),
                    sample_weight=weights,
                    labels=[0, 1],
                )
                for c in range(3)
            ]
        ),
        "accuracy": sklearn_metrics.accuracy_score(
            labels, predicted, sample_weight=weights
        ),
        "hamming_loss": sklearn_metrics.hamming_loss(
            labels, predicted, sample_weight=weights
        ),
    }
    for average in ("micro", "macro"):
        expected[f"{average}_f1"] = sklearn_metrics.f1_score(
            labels, predicted, average=average, **options
        )
    for kind in metrics.CLASS_METRICS:
        function = getattr(sklearn_metrics, f"{kind}_score")
        of_labels = function(labels, predicted, average=None, **options)
        for name, value in zip(LABELS, of_labels, strict=True):
            expected[f"{kind}/{name}"] = value
    for c, name in enumerate(LABELS[:2]):
        expected[f"auc/{name}"] = sklearn_metrics.roc_auc_score(
            labels[:, c], outputs[:, c], sample_weight=weights
        )
    assert math.isnan(actual.pop("auc/never"))
    assert actual.pop("loss") == pytest.approx(expected.pop("loss"), abs=1e-6)
    assert actual == pytest.approx(expected, abs=1e-12)


def test_constant_class_has_zero_f1_and_correlation():
    rows = Rows.of(np.array([0, 1, 0, 1]), np.tile([0.9, 0.1], (4, 1)))
    actual = metrics.compute(BINARY, rows)
    assert (actual["f1"], actual["matthews"], actual["accuracy"]) == (0, 0, 0.5)


def test_labels_of_one_class_have_no_auc_and_no_calibration():
    rows = Rows.of(np.zeros(4, int), np.tile([0.4, 0.6], (4, 1)))
    actual = metrics.compute(BINARY, rows)
    assert math.isnan(actual["auc"])
    assert math.isnan(actual["calibration"])
    assert actual["accuracy"] == 0


def test_loss_of_certain_probabilities_is_finite():
    rows = Rows.of(np.array([0, 0]), np.eye(2)[[0, 1]])
    assert rows.losses.tolist() == pytest.approx([0, -math.log(1e-7)])


@pytest.mark.parametrize("scores", [[2.0, 2.0, 2.0], [1.0]])
def test_constant_scores_rank_below_any_other(scores):
    labels = np.arange(len(scores), dtype=float)
    actual = metrics.compute(None, Rows.of(labels, np.array(scores)))
    for name in ("pearson", "spearman", "pearson_spearman"):
        assert math.isnan(actual[name])
    assert metrics.score(actual["pearson_spearman"]) < metrics.score(-1.0)
    assert math.isfinite(actual["mse"])


@pytest.mark.parametrize("kind", [*TASKS, "multilabel"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_every_metric_of_outputs_that_are_not_finite_is_nan(kind, bad):
    classes = TASKS.get(kind, LABELS)
    labels, outputs = simulate_labels() if kind == "multilabel" else simulate(classes)
    outputs[4] = bad
    values = metrics.compute(classes, Rows.of(labels, outputs))
    assert set(values) == set(metrics.for_kind(kind, classes or ()))
    assert all(math.isnan(value) for value in values.values())


def test_no_rows_have_no_metrics():
    values = metrics.compute(BINARY, Rows.of(np.zeros(0, int), np.zeros((0, 2))))
    assert all(math.isnan(value) for value in values.values())


def test_only_metrics_where_higher_is_better_decide():
    assert metrics.deciding("binary", BINARY)[:3] == ["accuracy", "precision", "recall"]
    assert metrics.deciding("regression") == ["pearson_spearman", "pearson", "spearman"]
    assert metrics.shorten(metrics.deciding("multiclass", CLASSES)) == (
        "accuracy, f1, precision/CLASS, recall/CLASS, f1/CLASS"
    )
