"""Our metrics by TFMA's machinery, against scikit-learn and SciPy."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import tensorflow_model_analysis as tfma
from sklearn.metrics import f1_score, precision_recall_fscore_support
from tensorflow_model_analysis.proto import config_pb2

from benchmarks import evaluation as batches
from modules.evaluation import metrics, tfma_metrics

pytestmark = pytest.mark.slow


def measure(rows, *names, **options):
    """Computes metrics with TFMA on rows in memory; returns them by case and name.

    Args:
      rows: Tables of labels and predictions.
      *names: The statistics.
      **options: Further arguments of `Statistic` for each.
    """
    config = config_pb2.EvalConfig(
        model_specs=[
            config_pb2.ModelSpec(label_key="label", prediction_key="prediction")
        ],
        slicing_specs=[config_pb2.SlicingSpec(feature_keys=["case"])],
        metrics_specs=[
            config_pb2.MetricsSpec(
                metrics=[
                    config_pb2.MetricConfig(
                        class_name="Statistic",
                        module="modules.evaluation.tfma_metrics",
                        config=json.dumps({"statistic": name, **options})[1:-1],
                    )
                    for name in names
                ]
            )
        ],
    )
    results = tfma.analyze_raw_data(pd.concat(rows), config).slicing_metrics
    return {
        slice_key[0][1]: {
            name: float(values[""][""][name]["doubleValue"]) for name in names
        }
        for slice_key, values in results
    }


def rows_of(case, labels, predictions):
    columns = {"label": list(labels), "prediction": predictions.tolist(), "case": case}
    return pd.DataFrame(columns)


# The classes that occur as labels, and those that are predicted.
CLASSES = {
    "every class": ([0, 1, 2, 3], [0, 1, 2, 3]),
    "a class that never occurs": ([0, 1, 2], [0, 1, 2]),
    "classes never predicted": ([0, 1, 2, 3], [1, 2]),
}


@pytest.fixture(scope="module")
def classified():
    """Labels and probabilities of each case, and the metrics by TFMA."""
    random = np.random.default_rng(0)
    cases = {"a constant class": (np.array([0, 1, 1, 0]), np.full([4, 4], 0.1))}
    cases["a constant class"][1][:, 1] = 0.7
    for case, (occur, are_predicted) in CLASSES.items():
        # Most maxima stay under 0.5, where TFMA's own F1 would see no prediction.
        probabilities = np.zeros([300, 4])
        dirichlet = random.dirichlet(np.ones(len(are_predicted)), 300)
        probabilities[:, are_predicted] = dirichlet
        cases[case] = random.choice(occur, 300), probabilities
    rows = [rows_of(case, *columns) for case, columns in cases.items()]
    return cases, measure(rows, "macro_f1", "matthews")


@pytest.mark.parametrize("case", CLASSES)
def test_macro_f1_equals_that_of_scikit_learn(classified, case):
    cases, actual = classified
    labels, probabilities = cases[case]
    expected = f1_score(labels, probabilities.argmax(1), average="macro")
    assert actual[case]["macro_f1"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("class_id", [0, 3])  # class 3 does not always occur
def test_metrics_of_a_class_equal_those_of_scikit_learn(classified, class_id):
    cases, _ = classified
    names = ("precision", "recall", "binary_f1")
    rows = [rows_of(case, *columns) for case, columns in cases.items()]
    actual = measure(rows, *names, class_id=class_id)
    for case, (labels, probabilities) in cases.items():
        *expected, _ = precision_recall_fscore_support(
            labels, probabilities.argmax(1), labels=[class_id], zero_division=0.0
        )
        values = [actual[case][name] for name in names]
        assert values == pytest.approx(np.concatenate(expected), abs=1e-12), case


def test_matthews_of_a_constant_class_is_0(classified):
    _, actual = classified
    assert actual["a constant class"]["matthews"] == 0
    assert actual["every class"]["matthews"] != 0


def test_correlations_with_ties_equal_those_of_scipy():
    random = np.random.default_rng(0)
    labels = random.integers(0, 6, 300) / 1.0
    scores = np.round(labels + random.normal(size=300), 1)
    names = ("pearson", "spearman", "pearson_spearman")
    actual = measure([rows_of("ties", labels, scores)], *names)["ties"]
    pearson = scipy.stats.pearsonr(labels, scores)[0]
    spearman = scipy.stats.spearmanr(labels, scores)[0]
    assert actual["pearson"] == pytest.approx(pearson, abs=1e-12)
    assert actual["spearman"] == pytest.approx(spearman, abs=1e-12)
    mean = (pearson + spearman) / 2
    assert actual["pearson_spearman"] == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("scores", [[1.0, 1.0, 1.0], [1.0], []])
def test_correlation_of_constant_scores_is_nan(scores):
    labels = np.arange(len(scores), dtype=float)
    for name in ("pearson", "spearman", "pearson_spearman"):
        assert np.isnan(getattr(metrics, name)(labels, np.array(scores)))


def test_unknown_statistic_is_refused():
    with pytest.raises(ValueError, match="'kendall' is unknown; allowed are example"):
        tfma_metrics.Statistic("kendall")


@pytest.fixture(scope="module", params=[1, 2], ids=["alone", "with a champion"])
def models(request):
    return batches.MODELS[: request.param]


@pytest.mark.parametrize("name", batches.TASKS)
def test_metrics_of_batches_equal_those_of_tfma_in_every_slice(name, models):
    task = batches.TASKS[name]
    config = batches.configure(task, models)
    extracts = batches.extract(task, [300, 1, 99], models)
    expected = batches.evaluate(
        extracts, batches.with_tfma_metrics(config), by_batch=False
    )
    actual = batches.evaluate(extracts, config, by_batch=True)
    assert len(expected["metrics"]) == 5  # all rows, three lengths, one overlap
    assert differences(actual, expected) == {}


def test_probabilities_of_0_and_1_do_not_make_the_loss_nan():
    task = batches.TASKS["two classes"]
    config = batches.configure(task, batches.MODELS[:1])
    first = [[1, 0], [0, 1], [0.5, 0.5], [0.3, 0.7]]
    extracts = batches.extract(task, [300, 1, 99], batches.MODELS[:1], first)
    expected = batches.evaluate(
        extracts, batches.with_tfma_metrics(config), by_batch=False
    )
    actual = batches.evaluate(extracts, config, by_batch=True)
    # TFMA's loss is NaN where it multiplies 0 by log 0.
    different = differences(actual, expected)
    assert {key.name for key in different} == {"loss"}
    assert not any(np.isnan(ours) for ours, _ in different.values())


def differences(actual, expected):
    """Returns our value and TFMA's of each metric that differs in a slice."""
    different = {}
    for kind in ("metrics", "plots"):
        assert actual[kind].keys() == expected[kind].keys()
    for slice_key, values in expected["metrics"].items():
        for key, value in values.items():
            ours = actual["metrics"][slice_key][key]
            if ours != pytest.approx(value, abs=1e-6, nan_ok=True):
                different[key] = ours, value
        assert actual["plots"][slice_key].keys() == expected["plots"][slice_key].keys()
        for key, plot in expected["plots"][slice_key].items():
            assert cells(actual["plots"][slice_key][key]) == cells(plot)
    return different


def cells(plot):
    (matrix,) = plot.matrices
    entries = {
        (entry.actual_class_id, entry.predicted_class_id): entry.num_weighted_examples
        for entry in matrix.entries
    }
    return matrix.threshold, entries
