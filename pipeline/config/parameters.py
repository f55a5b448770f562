"""The parameters of a run: what may change without the pipeline being compiled anew."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Any

from pipeline.config import typed_yaml
from pipeline.config.errors import UsageError
from pipeline.config.recipe import Config, parse_override

# The setting that has a parameter's default; `data` has none, for its default is what
# was made of the source.
_SETTINGS = {
    "epochs": "trainer.epochs",
    "steps_per_epoch": "trainer.steps_per_epoch",
    "learning_rate": "trainer.learning_rate",
    "thresholds": "evaluator.thresholds",
    "max_regression": "evaluator.max_regression",
}
_DATA = "data"
_BOUNDS = ("thresholds", "max_regression")


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


def parse(texts: Iterable[str]) -> dict[str, Any]:
    """Reads parameters of the command line, `NAME=VALUE` each.

    Raises:
      UsageError: There is no such parameter, or it has no value.
    """
    values = dict(_parse_one(text) for text in texts)
    return {
        name: json.dumps(value) if isinstance(value, dict) else value
        for name, value in values.items()
    }


def _parse_one(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    name = name.strip()
    if not separator:
        raise UsageError(f"--parameter {text!r}: write NAME=VALUE, as epochs=2")
    if name not in (_DATA, *_SETTINGS):
        raise UsageError(
            f"--parameter {name}: allowed are {', '.join((_DATA, *_SETTINGS))}"
        )
    try:
        _, parsed = parse_override(f"{_SETTINGS.get(name, 'data.source')}={value}")
    except UsageError as error:
        raise UsageError(
            f"--parameter {text!r}: the value is not YAML: {error.__cause__}"
        ) from error
    return name, parsed


def as_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Returns parameters as the settings that they stand for, to be checked as such."""
    settings = {}
    for name, value in values.items():
        if name == "steps_per_epoch":
            value = value or None
        elif name in _BOUNDS and isinstance(value, str):
            value = typed_yaml.load(value)
        if name in _SETTINGS:
            settings[_SETTINGS[name]] = value
    return settings
