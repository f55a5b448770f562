"""The parameters of a run: what may change without the pipeline being compiled anew."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from pipeline.config import Config


@dataclasses.dataclass(frozen=True)
class RunParameters:
    """Each a value, or the orchestrator's placeholder of one.

    Attributes:
      data: str, directory of TFRecords in the layout of the configuration's own.
      epochs: int, passes over the training split.
      steps_per_epoch: int, steps of a pass; 0 takes every row once.
      learning_rate: float, peak rate.
      thresholds: str, JSON of the lowest value by metric.
      max_regression: str, JSON of how far below the champion, by metric.
    """

    data: Any
    epochs: Any
    steps_per_epoch: Any
    learning_rate: Any
    thresholds: Any
    max_regression: Any

    @classmethod
    def of(
        cls, config: Config, examples: str, make: Callable[[str, Any], Any]
    ) -> RunParameters:
        """Makes the parameters of a configuration.

        Args:
          config: Has their defaults.
          examples: Directory of the Examples.
          make: Makes a parameter of its name and default.
        """
        defaults = {
            "data": examples,
            "epochs": config.trainer.epochs,
            "steps_per_epoch": config.trainer.steps_per_epoch or 0,
            "learning_rate": config.trainer.learning_rate,
            "thresholds": json.dumps(config.evaluator.thresholds),
            "max_regression": json.dumps(config.evaluator.max_regression),
        }
        return cls(**{name: make(name, value) for name, value in defaults.items()})
