"""What the gate measures and bounds."""

import tensorflow_model_analysis as tfma

from modules import evaluation
from pipeline.config import EvaluatorConfig
from pipeline.task import TaskConfig


def metric(config, name):
    (found,) = (
        metric
        for spec in config.metrics_specs
        for metric in spec.metrics
        if f'"{name}"' in metric.config
    )
    return found


def test_bounds_hold_on_all_rows_and_slices_are_reported_only():
    gate = EvaluatorConfig(
        thresholds={"accuracy": 0.8}, max_regression={"accuracy": 0.02, "f1": 0.01}
    )
    config = evaluation.build_eval_config(TaskConfig(), gate)
    (bound,) = metric(config, "accuracy").per_slice_thresholds
    assert list(bound.slicing_specs) == [tfma.SlicingSpec()]
    assert bound.threshold.value_threshold.lower_bound.value == 0.8
    change = bound.threshold.change_threshold
    assert change.absolute.value == -0.02
    assert change.direction == tfma.MetricDirection.HIGHER_IS_BETTER
    (bound,) = metric(config, "f1").per_slice_thresholds
    assert not bound.threshold.HasField("value_threshold")
    assert not metric(config, "auc").per_slice_thresholds
    keys = [list(spec.feature_keys) for spec in config.slicing_specs]
    assert keys == [[], ["pair_length"], ["word_overlap"]]


def test_more_classes_have_no_positive_one():
    task = TaskConfig(classes=["no", "maybe", "yes"])
    config = evaluation.build_eval_config(task, EvaluatorConfig())
    assert not any(s.binarize.class_ids.values for s in config.metrics_specs)
    names = [m.class_name for s in config.metrics_specs for m in s.metrics]
    assert "SparseCategoricalAccuracy" in names


def test_config_is_valid_to_tfma():
    for task in (TaskConfig(), TaskConfig(classes=["a", "b", "c"])):
        config = evaluation.build_eval_config(task, EvaluatorConfig())
        tfma.utils.verify_eval_config(config)
