"""Bounds on metrics, and the verdict that people read.

What the whole Evaluator makes of a model is in
`tests/modules/evaluation/test_eval_config.py`.
"""

import json
import math

import pytest
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

from components.evaluator import (
    MetricVerdict,
    Verdict,
    bounds,
    read_verdict,
    verdict,
)
from modules.config.task import TaskConfig
from modules.evaluation import eval_config
from tests import exported


def metric(config, name):
    (found,) = (
        metric
        for spec in config.metrics_specs
        for metric in spec.metrics
        if f'"{name}"' in metric.config
    )
    return found


def test_bounds_hold_on_all_rows():
    config = eval_config.build_eval_config(TaskConfig())
    bounds.add(config, {"accuracy": 0.8}, {"accuracy": 0.02, "f1": 0.01})
    (bound,) = metric(config, "accuracy").per_slice_thresholds
    assert list(bound.slicing_specs) == [config_pb2.SlicingSpec()]
    assert bound.threshold.value_threshold.lower_bound.value == 0.8
    change = bound.threshold.change_threshold
    assert change.absolute.value == -0.02
    assert change.direction == config_pb2.MetricDirection.HIGHER_IS_BETTER
    (bound,) = metric(config, "f1").per_slice_thresholds
    assert not bound.threshold.HasField("value_threshold")
    assert not metric(config, "auc").per_slice_thresholds


@pytest.mark.parametrize("kind", exported.TASKS)
def test_every_metric_of_a_task_can_be_bounded_to_tfmas_mind(kind):
    task = exported.TASKS[kind]
    config = eval_config.build_eval_config(task)
    bounds.add(config, dict.fromkeys(task.metrics, 0.5), {})
    tfma.utils.verify_eval_config(config)
    for name in task.metrics:
        assert metric(config, name).per_slice_thresholds


def test_bound_on_what_is_not_measured_is_refused():
    config = eval_config.build_eval_config(TaskConfig())
    with pytest.raises(ValueError, match=r"bounds on pearson.*measured are .*accuracy"):
        bounds.add(config, {"pearson": 0.5}, {})


@pytest.mark.parametrize("text", ["accuracy", "[1]", '{"accuracy": "high"}', "0.8"])
def test_bounds_that_are_no_numbers_by_metric_are_refused(text):
    with pytest.raises(ValueError, match=r"thresholds is .*give JSON with a number"):
        bounds.parse("thresholds", text)


@pytest.mark.parametrize(
    ("value", "champion", "threshold", "regression", "failures"),
    [
        (0.8, None, 0.8, 0.1, []),
        (0.7999, None, 0.8, None, ["accuracy is 0.7999, the threshold is 0.8000"]),
        (math.nan, None, 0.8, None, ["accuracy is nan, the threshold is 0.8000"]),
        (0.85, 0.86, 0.8, 0.02, []),
        (
            0.83,
            0.86,
            0.8,
            0.02,
            ["accuracy is 0.8300, more than 0.0200 below the champion's 0.8600"],
        ),
        (0.1, 0.9, None, None, []),
    ],
)
def test_metric_fails_below_its_threshold_or_too_far_below_the_champion(
    value, champion, threshold, regression, failures
):
    found = MetricVerdict(
        "accuracy", verdict.ALL_ROWS, value, champion, threshold, regression
    )
    assert found.failures == failures


def test_first_verdict_says_that_there_is_no_champion():
    found = Verdict(True, ["eval"], None, [])
    assert found.summary == "blessed; no champion yet: absolute thresholds alone"


def test_verdict_says_why_there_is_no_comparison(tmp_path):
    reason = "not compared with the champion serving/1, its classes is a, not b"
    verdict.write_verdict(Verdict(True, ["eval"], None, [], reason), str(tmp_path))
    restored = read_verdict(str(tmp_path))
    assert restored.summary == f"blessed; {reason}: absolute thresholds alone"


def test_verdict_is_read_back_as_it_was_written(tmp_path):
    metrics = [
        MetricVerdict("f1", verdict.ALL_ROWS, 0.7, 0.9, 0.8, 0.1),
        MetricVerdict("precision", verdict.ALL_ROWS, math.inf, None, None, None),
    ]
    written = Verdict(False, ["eval"], "serving/1", metrics)
    verdict.write_verdict(written, str(tmp_path))
    assert read_verdict(str(tmp_path)) == written
    content = json.loads(
        (tmp_path / verdict.VERDICT_FILE).read_text(), parse_constant=pytest.fail
    )
    assert content["summary"].startswith("refused: f1 is 0.7000, the threshold is 0.8")
    assert content["summary"].endswith("compared with the champion serving/1")
    assert content["metrics"][0] == {
        "metric": "f1",
        "slice": "all rows",
        "value": 0.7,
        "champion": 0.9,
        "threshold": 0.8,
        "max_regression": 0.1,
        "failures": metrics[0].failures,
    }
