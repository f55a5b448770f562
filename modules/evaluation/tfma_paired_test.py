"""The paired test of a candidate and a champion, as a metric of TFMA."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

from contracts.task.definition import TaskConfig
from modules.evaluation import resampling, tfma_metrics


class PairedTest(tfma.metrics.Metric):
    """The paired test of the task's metric: JSON of `PairedTest`, as bytes.

    Without a champion it has no value. It uses the rows that `tfma_metrics` gathers.

    Args:
      task: A `TaskConfig` as JSON.
      code_fingerprint: Unused. In the configuration it makes an edit of this module
        change TFX's cache key.
    """

    def __init__(self, task: dict[str, Any], code_fingerprint: str = "") -> None:
        super().__init__(_computations, name="paired_test", task=task)


def _computations(
    name: str,
    task: dict[str, Any],
    eval_config: config_pb2.EvalConfig,
    example_weighted: bool = False,
) -> list[tfma.metrics.MetricComputation | tfma.metrics.DerivedMetricComputation]:
    specs = sorted(eval_config.model_specs, key=lambda spec: not spec.is_baseline)
    if not specs[0].is_baseline:
        return []
    # TFMA combines all computations of a slice together, so both have the rows in the
    # same order.
    gathered = [
        tfma_metrics.gather_rows(
            eval_config, model_name=spec.name, example_weighted=example_weighted
        )
        for spec in specs
    ]
    key = tfma.metrics.MetricKey(
        name=name, model_name=specs[1].name, example_weighted=example_weighted
    )

    def result(computed: dict[tfma.metrics.MetricKey, Any]) -> dict:
        champion, candidate = (computed[gather.keys[0]] for gather in gathered)
        assert np.array_equal(champion.labels, candidate.labels)
        definition = TaskConfig(**task)
        test = resampling.paired_test(
            definition, champion, candidate, definition.metric
        )
        return {key: test.model_dump_json().encode()}

    derived = tfma.metrics.DerivedMetricComputation(keys=[key], result=result)
    return [*gathered, derived]
