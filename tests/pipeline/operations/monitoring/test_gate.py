"""Live metrics beside those of the gate."""

import numpy as np
import pytest

from contracts.metrics import Rows
from contracts.records.evaluation import Estimate, Evaluation
from contracts.task.definition import TaskConfig
from pipeline.operations.monitoring import gate
from tests.refusals import refused

TASK = TaskConfig(text_columns=["text"], classes=["no", "yes"], labels="name")


def evaluation(accuracy, margin=0.03):
    interval = (accuracy - margin, accuracy + margin)
    return Evaluation(
        split="eval",
        rows=400,
        metric="accuracy",
        metrics={
            "f1": Estimate(value=0.99, interval=(0.98, 1.0)),
            "accuracy": Estimate(value=accuracy, interval=interval),
            "loss": Estimate(value=0.2),
        },
        data="data",
        data_version="0",
    )


def rows(right, count=400):
    labels = np.arange(count) % 2
    predicted = np.where(np.arange(count) < round(count * right), labels, 1 - labels)
    return Rows.of(labels, np.eye(2)[predicted])


def compare(version, at_gate, live, **options):
    return gate.compare(
        version, evaluation(at_gate, **options), rows(live), TASK, significance=0.001
    )


@pytest.mark.parametrize(
    ("at_gate", "live", "is_alarm"),
    [
        (0.9, 0.9, False),
        (0.9, 0.88, False),  # by chance
        (0.9, 0.95, False),  # above
        (0.9, 0.75, True),
    ],
)
def test_only_a_live_metric_far_below_the_gates_is_an_alarm(at_gate, live, is_alarm):
    accuracy, f1 = compare("1", at_gate, live)
    assert (accuracy.metric, accuracy.decides) == ("accuracy", True)
    assert accuracy.is_alarm == is_alarm
    assert accuracy.difference == pytest.approx(live - at_gate)
    assert accuracy.low < live - at_gate < accuracy.high
    assert not f1.is_alarm  # it decides nothing


def test_few_rows_at_the_gate_allow_a_larger_difference():
    p_values = [compare("1", 0.9, 0.8, margin=m)[0].p for m in (0.01, 0.15)]
    assert p_values[0] < 0.001 < 0.1 < p_values[1]


def test_interval_of_the_difference_is_that_of_two_proportions():
    margin = 1.96 * np.sqrt(0.9 * 0.1 / 300)
    accuracy, _ = compare("1", 0.9, 0.85, margin=margin)
    half = 1.96 * np.sqrt(0.9 * 0.1 / 300 + 0.85 * 0.15 / 400)
    assert accuracy.low == pytest.approx(-0.05 - half, abs=0.005)
    assert accuracy.high == pytest.approx(-0.05 + half, abs=0.005)


def test_output_that_is_not_finite_is_an_alarm():
    table = Rows.of(np.array([0, 1]), np.array([[np.nan, np.nan], [0.1, 0.9]]))
    accuracy, _ = gate.compare("1", evaluation(0.9), table, TASK, significance=0.001)
    assert accuracy.is_alarm


def test_window_without_a_positive_row_is_no_alarm():
    table = Rows.of(np.zeros(300, int), np.tile([0.9, 0.1], (300, 1)))
    at_gate = evaluation(0.9).model_copy(update={"metric": "f1"})
    compared = gate.compare("1", at_gate, table, TASK, significance=0.001)
    assert not any(comparison.is_alarm for comparison in compared)


def test_history_keeps_the_last_pair_of_each_version_and_skips_half_a_line(tmp_path):
    path = tmp_path / "history.jsonl"
    assert gate.record(path, compare("9", 0.9, 0.8)) != []
    gate.record(path, compare("10", 0.8, 0.7))
    with open(path, "a") as file:
        file.write('{"version": "1')  # the writer was killed
    pairs = gate.record(path, compare("9", 0.9, 0.85))
    assert [(pair.version, pair.live) for pair in pairs] == [("9", 0.85), ("10", 0.7)]
    assert all(pair.decides for pair in pairs)


@pytest.mark.parametrize(
    ("live", "correlation"),
    [((0.8, 0.85, 0.9), 1.0), ((0.8, 0.9, 0.85), 0.5), ((0.8, 0.85), None)],
)
def test_live_metrics_that_follow_the_gates_correlate(live, correlation):
    at_gate = (0.82, 0.86, 0.91)
    pairs = [
        compare(str(number), *values)[0]
        for number, values in enumerate(zip(at_gate, live, strict=False))
    ]
    found = gate.rank_correlation(pairs)
    assert (found and found[0]) == (correlation and pytest.approx(correlation))


def test_equal_metrics_have_no_correlation():
    pairs = [compare(str(n), 0.9, 0.8 + n / 50)[0] for n in range(3)]
    assert gate.rank_correlation(pairs) is None


@pytest.mark.parametrize(
    ("content", "name"),
    [("{", "E-record-damaged"), ('{"format": 9}', "E-file-format-other")],
)
def test_evaluation_that_cannot_be_read_is_named(tmp_path, content, name):
    file = tmp_path / "7" / "evaluation.json"
    file.parent.mkdir()
    file.write_text(content)
    with refused(name) as caught:
        gate.read_evaluation(str(tmp_path), "7")
    assert str(file) in str(caught.value)
    assert gate.read_evaluation(str(tmp_path), "8") is None
