"""Our metrics by TFMA's machinery, against scikit-learn and SciPy."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import tensorflow_model_analysis as tfma
from sklearn.metrics import f1_score
from tensorflow_model_analysis.proto import config_pb2

from modules.evaluation import tfma_metrics


def measure(labels, predictions, *names):
    """Returns what TFMA's own evaluation gives for rows held in memory."""
    config = config_pb2.EvalConfig(
        model_specs=[
            config_pb2.ModelSpec(label_key="label", prediction_key="prediction")
        ],
        slicing_specs=[config_pb2.SlicingSpec()],
        metrics_specs=[
            config_pb2.MetricsSpec(
                metrics=[
                    config_pb2.MetricConfig(
                        class_name="Statistic",
                        module="modules.evaluation.tfma_metrics",
                        config=f'"name": "{name}"',
                    )
                    for name in names
                ]
            )
        ],
    )
    rows = pd.DataFrame({"label": list(labels), "prediction": predictions.tolist()})
    ((_, actual),) = tfma.analyze_raw_data(rows, config).slicing_metrics
    return {name: float(actual[""][""][name]["doubleValue"]) for name in names}


@pytest.mark.parametrize(
    ("occur", "are_predicted"),
    [([0, 1, 2, 3], [0, 1, 2, 3]), ([0, 1, 2], [0, 1, 2]), ([0, 1, 2, 3], [1, 2])],
    ids=["every class", "a class that is nowhere", "classes never predicted"],
)
def test_macro_f1_equals_that_of_scikit_learn(occur, are_predicted):
    random = np.random.default_rng(0)
    labels = random.choice(occur, 300)
    # Most winners stay under 0.5, where TFMA's binarized F1 would see no prediction.
    probabilities = np.zeros([300, 4])
    probabilities[:, are_predicted] = random.dirichlet(np.ones(len(are_predicted)), 300)
    expected = f1_score(labels, probabilities.argmax(1), average="macro")
    actual = measure(labels, probabilities, "f1")
    assert actual["f1"] == pytest.approx(expected, abs=1e-12)


def test_correlations_with_ties_equal_those_of_scipy():
    random = np.random.default_rng(0)
    labels = random.integers(0, 6, 300) / 1.0
    scores = np.round(labels + random.normal(size=300), 1)
    actual = measure(labels, scores, "pearson", "spearman", "pearson_spearman")
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
        assert np.isnan(tfma_metrics.STATISTICS[name](labels, np.array(scores)))


def test_matthews_of_a_constant_class_is_0():
    labels = np.array([0, 1, 1, 0])
    actual = measure(labels, np.tile([0.2, 0.8], (4, 1)), "matthews")
    assert actual["matthews"] == 0


def test_unknown_statistic_is_refused():
    with pytest.raises(ValueError, match="'kendall' is not a statistic; allowed are"):
        tfma_metrics.Statistic("kendall")
