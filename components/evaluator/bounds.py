"""Bounds on metrics, as thresholds of TFMA."""

from __future__ import annotations

import dataclasses
import json
import math

from tensorflow_model_analysis.proto import config_pb2

from contracts import metrics
from contracts.records.evaluation import lowest
from modules.evaluation import eval_config


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds on metrics over all rows.

    Attributes:
      thresholds: Lowest allowed value by metric.
      max_regression: Largest allowed difference below the baseline by metric.
    """

    thresholds: dict[str, float]
    max_regression: dict[str, float]

    def add_to(self, config: config_pb2.EvalConfig) -> None:
        """Adds the bounds to an EvalConfig.

        Args:
          config: Result of `eval_config.build_eval_config`; modified in place.

        Raises:
          ValueError: A bound names a metric that cannot have one.
        """
        spec, evaluated = eval_config.read_deciding(config)
        bounded = {*self.thresholds, *self.max_regression}
        unknown = bounded - set(evaluated)
        if unknown:
            raise ValueError(
                f"bounds on {', '.join(sorted(unknown))}, but the metrics that can "
                f"have one are {metrics.shorten(evaluated)}"
            )
        for name in bounded:
            # A SlicingSpec without features is the slice of all rows.
            threshold = (
                spec.per_slice_thresholds[name]
                .thresholds.add(slicing_specs=[config_pb2.SlicingSpec()])
                .threshold
            )
            # NaN reaches no bound, and a first model has no champion to be refused by.
            bound = lowest(self.thresholds.get(name, -math.inf))
            threshold.value_threshold.lower_bound.value = bound
            if name in self.max_regression:
                change = threshold.change_threshold
                change.direction = config_pb2.MetricDirection.HIGHER_IS_BETTER
                change.absolute.value = lowest(-self.max_regression[name])


def parse(name: str, text: str) -> dict[str, float]:
    """Parses bounds from JSON.

    Args:
      name: The parameter's name, for the error message.
      text: A JSON object of numbers by metric.

    Raises:
      ValueError: The text is not such an object.
    """
    try:
        values = json.loads(text)
        return {str(metric): float(value) for metric, value in values.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is {text!r}; give JSON with a number for each metric, such as "
            '{"accuracy": 0.8}'
        ) from error
