"""Metrics that TFMA lacks or computes in another way than GLUE.

TFMA's macro F1 counts a class as predicted if its probability is over 0.5. Its Matthews
correlation is NaN, not 0, if only one class is predicted.
"""

from __future__ import annotations

import array
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

from modules.evaluation import metrics

_Pairs = tuple[array.array, array.array]  # labels, predictions
_PAIRS_KEY = "_labels_and_predictions"  # TFMA hides names with a leading "_"

# Functions of labels and predictions: the most probable classes, or the scores.
STATISTICS = {
    "pearson": metrics.pearson,
    "spearman": metrics.spearman,
    "pearson_spearman": metrics.pearson_spearman,
    "f1": metrics.macro_f1,
    "matthews": metrics.matthews,
}


class Statistic(tfma.metrics.Metric):
    """A TFMA metric of all labels and predictions of a slice at once.

    Args:
      name: One of `STATISTICS`.
      code_fingerprint: Unused; in the configuration it lets TFX's cache see an edit of
        this module.

    Raises:
      ValueError: The name is none of them.
    """

    def __init__(self, name: str, code_fingerprint: str = "") -> None:
        if name not in STATISTICS:
            raise ValueError(
                f"name {name!r} is not a statistic; allowed are {', '.join(STATISTICS)}"
            )
        super().__init__(
            tfma.metrics.merge_per_key_computations(_computations), name=name
        )


def _computations(
    name: str,
    eval_config: config_pb2.EvalConfig | None = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
    **_: Any,
) -> list[tfma.metrics.MetricComputation | tfma.metrics.DerivedMetricComputation]:
    key, pairs_key = (
        tfma.metrics.MetricKey(
            name=key_name,
            model_name=model_name,
            output_name=output_name,
            example_weighted=example_weighted,
        )
        for key_name in (name, _PAIRS_KEY)
    )

    def result(computed: dict[tfma.metrics.MetricKey, Any]) -> dict:
        labels, predictions = (np.asarray(values) for values in computed[pairs_key])
        return {key: STATISTICS[name](labels, predictions)}

    # TFMA runs computations with the same key and combiner once for all metrics.
    gather = tfma.metrics.MetricComputation(
        keys=[pairs_key],
        preprocessors=None,
        combiner=_GatherPairs(pairs_key, eval_config),
    )
    derived = tfma.metrics.DerivedMetricComputation(keys=[key], result=result)
    return [gather, derived]


class _GatherPairs(beam.CombineFn):
    """Collects the label and the prediction of every row, 16 bytes a row."""

    def __init__(
        self, key: tfma.metrics.MetricKey, eval_config: config_pb2.EvalConfig | None
    ) -> None:
        self._key = key
        self._eval_config = eval_config

    def create_accumulator(self) -> _Pairs:
        return array.array("d"), array.array("d")

    def add_input(
        self, accumulator: _Pairs, element: tfma.metrics.StandardMetricInputs
    ) -> _Pairs:
        labels, predictions = accumulator
        for label, prediction, _ in tfma.metrics.to_label_prediction_example_weight(
            element,
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            output_name=self._key.output_name,
            flatten=False,
        ):
            is_score = prediction.size == 1
            labels.append(label.item())
            predictions.append(prediction.item() if is_score else prediction.argmax())
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[_Pairs]) -> _Pairs:
        labels, predictions = self.create_accumulator()
        for more_labels, more_predictions in accumulators:
            labels.extend(more_labels)
            predictions.extend(more_predictions)
        return labels, predictions

    def extract_output(
        self, accumulator: _Pairs
    ) -> dict[tfma.metrics.MetricKey, _Pairs]:
        return {self._key: accumulator}
