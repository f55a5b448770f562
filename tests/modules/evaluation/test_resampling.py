"""The uncertainty of metrics."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from contracts import metrics
from contracts.metrics import Rows
from contracts.task.definition import TaskConfig
from modules.evaluation import resampling

BINARY = TaskConfig()
CLASSES = TaskConfig(classes=["a", "b", "c"])
SCORES = TaskConfig.model_validate({"label_range": [0.0, 5.0]})
LABELS = TaskConfig(kind="multilabel", classes=["a", "b", "c"])


def simulate(task, rows, skill=2.0, seed=0):
    """Returns labels, always the same, and a model's outputs."""
    of_labels, of_model = np.random.default_rng(7), np.random.default_rng(seed)
    if task.classes is None:
        labels = of_labels.normal(size=rows).round(1)
        return labels, skill * labels + of_model.normal(size=rows)
    if task.kind:
        labels = (of_labels.random((rows, task.outputs)) < [0.3, 0.5, 0.2]).astype(int)
        noise = of_model.normal(size=labels.shape)
        return labels, 1 / (1 + np.exp(-skill * (labels - 0.5) - noise))
    labels = of_labels.integers(0, task.outputs, rows)
    logits = of_model.normal(size=(rows, task.outputs))
    logits[np.arange(rows), labels] += skill
    return labels, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def probabilities(classes):
    """Returns probabilities of two classes with these predictions."""
    return np.eye(2)[classes] * 0.8 + 0.1


@pytest.mark.parametrize("task", [BINARY, CLASSES, SCORES, LABELS])
def test_every_metric_of_the_table_has_an_interval_around_it(task):
    labels, outputs = simulate(task, 300)
    rows = Rows.of(labels, outputs)
    intervals = resampling.confidence_intervals(task, rows)
    for name, value in metrics.compute(task.classes, rows).items():
        low, high = intervals[name]
        assert low < value < high
        assert high - low < 0.7
        test = resampling.paired_test(task, rows, rows, name)
        assert test.a == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("task", [BINARY, CLASSES, SCORES, LABELS])
def test_the_interval_of_one_metric_computes_no_other(task, monkeypatch):
    rows, computed = Rows.of(*simulate(task, 300)), []
    intervals = resampling.confidence_intervals(task, rows)
    values = metrics.Metric.values
    monkeypatch.setattr(
        metrics.Metric, "values", lambda m, s: computed.append(m) or values(m, s)
    )
    for name, metric in task.metric_table.items():
        assert resampling.confidence_intervals(task, rows, [name]) == {
            name: intervals[name]
        }
        assert {*computed} == {metric}
        computed.clear()


def test_a_resample_of_many_rows_is_scaled():
    """5,000 of 40,000 rows are resampled; the intervals are those of all rows."""
    labels, outputs = simulate(BINARY, 40_000)
    losses = -np.log(outputs[np.arange(40_000), labels])
    low, high = resampling.confidence_intervals(BINARY, Rows.of(labels, outputs))[
        "loss"
    ]
    assert low < losses.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * stats.sem(losses), rel=0.1)


def test_a_resample_of_many_rows_has_enough_of_a_rare_class():
    """The spread of the AUC is DeLong's of all 80 positives, not of 20 of them."""
    random = np.random.default_rng(2)
    labels = np.repeat([1, 0], [80, 20_000 - 80])
    scores = stats.norm.cdf(random.normal(size=20_000) + 2 * labels - 1)
    ranks = stats.rankdata(scores)
    positive, negative = ranks[:80], ranks[80:]
    of_positives = (positive - stats.rankdata(positive)) / len(negative)
    of_negatives = (negative - stats.rankdata(negative)) / len(positive)
    error = math.hypot(stats.sem(of_positives), stats.sem(of_negatives))
    low, high = resampling.confidence_intervals(
        BINARY, Rows.of(labels, np.stack([1 - scores, scores], axis=1)), resamples=250
    )["auc"]
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)


def test_a_proportion_of_1_is_not_certain():
    labels = np.repeat([0, 1], [40, 5])
    intervals = resampling.confidence_intervals(
        BINARY, Rows.of(labels, probabilities(labels)), resamples=50
    )
    assert intervals["accuracy"] == pytest.approx((0.921, 1), abs=0.001)
    low, high = intervals["recall/equivalent"]
    assert low == pytest.approx(0.566, abs=0.001)
    assert high == 1
    assert all(map(math.isnan, intervals["auc"]))  # the resamples are all alike


def test_an_f1_of_0_has_the_interval_of_its_proportion():
    """None of the 10 rows with the class or its prediction is right."""
    labels = np.repeat([1, 0, 0], [5, 5, 50])
    outputs = probabilities(np.repeat([0, 1, 0], [5, 5, 50]))
    intervals = resampling.confidence_intervals(
        BINARY, Rows.of(labels, outputs), resamples=50
    )
    _, high = stats.binomtest(0, 10).proportion_ci(method="wilson")
    f1 = (0, 2 * high / (1 + high))
    assert intervals["f1"] == intervals["f1/equivalent"] == pytest.approx(f1)
    assert f1[1] == pytest.approx(0.434, abs=0.001)


def test_a_micro_f1_of_1_has_the_interval_of_its_proportion():
    """All of the 60 labels are right."""
    labels = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]] * 20)
    rows = Rows.of(labels, 0.1 + 0.8 * labels)
    intervals = resampling.confidence_intervals(LABELS, rows, resamples=50)
    low, _ = stats.binomtest(60, 60).proportion_ci(method="wilson")
    assert intervals["micro_f1"] == pytest.approx((2 * low / (1 + low), 1))


@pytest.mark.parametrize("absent", [0, 1])
def test_a_label_that_all_rows_have_or_lack_makes_no_larger_resamples(
    absent, monkeypatch
):
    """Only its AUC, which it lacks, would need more than 5,000 rows."""
    labels, outputs = simulate(LABELS, 6_000)
    labels[:, 2] = absent
    sizes = set()
    draw = resampling._draw

    def record(counts, resamples, random):
        sizes.add(counts.sum())
        return draw(counts, resamples, random)

    monkeypatch.setattr(resampling, "_draw", record)
    rows = Rows.of(labels, outputs)
    intervals = resampling.confidence_intervals(LABELS, rows, resamples=10)
    assert max(sizes - {6_000}) == 5_000
    assert all(map(math.isnan, intervals["auc/c"]))
    assert all(map(math.isfinite, intervals["auc/a"]))


def test_one_class_has_no_auc():
    labels = np.zeros(20, int)
    outputs = probabilities(np.arange(20) % 2)
    intervals = resampling.confidence_intervals(BINARY, Rows.of(labels, outputs))
    assert all(map(math.isnan, intervals["auc"]))
    assert all(map(math.isfinite, intervals["accuracy"]))
    test = resampling.paired_test(
        BINARY, Rows.of(labels, outputs), Rows.of(labels, outputs), "auc"
    )
    assert test.sentence == "auc cannot be compared: it is NaN (20 rows)"
    assert json.loads(test.model_dump_json())["difference"] == "nan"


@pytest.mark.parametrize("task", [BINARY, SCORES])
def test_outputs_that_are_not_finite_have_no_metrics(task):
    labels, outputs = simulate(task, 30)
    broken = outputs.copy()
    broken[3] = math.nan
    intervals = resampling.confidence_intervals(task, Rows.of(labels, broken))
    assert all(map(math.isnan, np.ravel(list(intervals.values()))))
    test = resampling.paired_test(
        task, Rows.of(labels, outputs), Rows.of(labels, broken), task.metric
    )
    assert math.isfinite(test.a)
    assert math.isnan(test.b)
    assert math.isnan(test.p_value)


def test_accuracy_is_compared_by_mcnemar():
    labels = np.ones(408, int)
    a, b = np.ones(408, int), np.ones(408, int)
    a[:31], b[20:45] = 0, 0
    test = resampling.paired_test(
        BINARY,
        Rows.of(labels, probabilities(a)),
        Rows.of(labels, probabilities(b)),
        "accuracy",
    )
    assert (test.only_a_right, test.only_b_right) == (14, 20)
    assert test.p_value == pytest.approx(stats.binomtest(14, 34).pvalue)
    assert test.sentence == (
        "accuracy is 0.015 higher (95 % interval -0.014 to 0.043); the difference may "
        "be noise (p = 0.39, McNemar, 408 rows)"
    )


def test_the_interval_of_a_difference_in_accuracy_holds_the_true_one():
    """Also with few rows that only one of the models predicts right."""
    random = np.random.default_rng(0)
    labels, hits = np.ones(60, int), 0
    for _ in range(500):
        # Right: both, only a, only b.
        drawn = random.choice(3, 60, p=[0.9, 0.02, 0.08])
        a, b = probabilities((drawn != 2) * 1), probabilities((drawn != 1) * 1)
        test = resampling.paired_test(
            BINARY, Rows.of(labels, a), Rows.of(labels, b), "accuracy"
        )
        hits += test.low <= 0.06 <= test.high
    assert 0.92 < hits / 500 < 0.985


@pytest.mark.parametrize(
    ("task", "metric"),
    [(BINARY, "f1"), (BINARY, "auc"), (CLASSES, "f1/b"), (SCORES, "pearson_spearman")],
)
def test_a_better_model_is_distinguished_from_noise(task, metric):
    labels, outputs = simulate(task, 400, skill=1.0)
    _, equal = simulate(task, 400, skill=1.0, seed=1)
    _, better = simulate(task, 400, skill=3.0, seed=1)
    noise = resampling.paired_test(
        task, Rows.of(labels, outputs), Rows.of(labels, equal), metric
    )
    assert noise.may_be_noise
    assert noise.low < 0 < noise.high
    test = resampling.paired_test(
        task, Rows.of(labels, outputs), Rows.of(labels, better), metric
    )
    assert not test.may_be_noise
    assert 0 < test.low < test.difference < test.high
    assert test.sentence.endswith(
        "is more than noise (p = 0.002, paired bootstrap, 400 rows)"
    )
    assert (test.only_a_right is None) == (task.classes is None)


@pytest.mark.parametrize("metric", ["accuracy", "f1", "loss"])
def test_a_model_equals_itself(metric):
    labels, outputs = simulate(BINARY, 50)
    test = resampling.paired_test(
        BINARY, Rows.of(labels, outputs), Rows.of(labels, outputs), metric
    )
    assert test.p_value == 1
    assert test.may_be_noise
    assert test.sentence == f"{metric} is equal (50 rows)"


def test_a_metric_of_another_task_is_refused():
    labels, outputs = simulate(CLASSES, 10)
    with pytest.raises(
        ValueError, match="metric 'auc' is not one of loss, accuracy, f1"
    ):
        resampling.paired_test(
            CLASSES, Rows.of(labels, outputs), Rows.of(labels, outputs), "auc"
        )
