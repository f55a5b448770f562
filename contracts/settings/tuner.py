"""The settings of the search, and the values that it tries."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import Field, PositiveInt, ValidationError, model_validator

from contracts.errors import SettingError
from contracts.section import Settings
from contracts.settings.trainer import TrainerConfig

# The settings of `trainer` that change the weights, and neither the cost nor the
# meaning of an evaluation.
SEARCHED = (
    "epochs",
    "batch_size",
    "learning_rate",
    "warmup_fraction",
    "decay_start",
    "weight_decay",
    "gradient_clip_norm",
    "layer_decay",
    "frozen_layers",
    "dropout",
)
_SCALES = ("log", "linear")


class Range(NamedTuple):
    """The numbers between two ends, integers if both ends are.

    Attributes:
      low: The lowest.
      high: The highest.
      is_log: Whether their logarithms are equally likely.
    """

    low: float
    high: float
    is_log: bool

    @property
    def is_integer(self) -> bool:
        """Whether it has only integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)


Values = Range | list[Any]


class TunerConfig(Settings):
    """A search for settings of `trainer`, before the Trainer. No section, no search.

    Attributes:
      trials: Number of trainings, each from the first seed. The first has the recipe's
        own settings, where the space has them. If the number is raised, the search
        continues.
      space: Values by setting of `trainer`. `[1e-5, 1e-4, log]` and `[0, 0.3, linear]`
        are ranges; `[2, 3, 4]` has the values themselves. A setting that is overridden
        with `--set` is not searched. docs/training.md lists the settings that can be.
    """

    trials: PositiveInt = 20
    space: dict[str, list[Any]] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _drop_service(cls, values: Any) -> Any:
        # Runs of 1.0 have recorded it; it was the default.
        if isinstance(values, dict) and values.get("service") == "optuna":
            return {key: value for key, value in values.items() if key != "service"}
        return values

    def parse_space(self, trainer: TrainerConfig) -> dict[str, Values]:
        """Returns the values of each setting, validated as settings of the Trainer.

        Args:
          trainer: The other settings.

        Raises:
          SettingError: A setting cannot be searched, or a value of it is not allowed.
        """
        return {
            name: _parse(name, values, trainer) for name, values in self.space.items()
        }

    def ends(self, trainer: TrainerConfig) -> Iterator[TrainerConfig]:
        """Yields the Trainer's settings with each value, or end of a range, in turn."""
        for name, values in self.parse_space(trainer).items():
            for value in values[:2] if isinstance(values, Range) else values:
                yield merge(trainer, {name: value})


def contains(values: Values, value: Any) -> bool:
    """Returns whether a setting of the space can have a value."""
    if not isinstance(values, Range):
        return value in values
    return value is not None and values.low <= value <= values.high


def merge(trainer: TrainerConfig, values: dict[str, Any]) -> TrainerConfig:
    """Returns the Trainer's settings with other values, validated."""
    return TrainerConfig.model_validate({**trainer.model_dump(), **values})


def _parse(name: str, values: list[Any], trainer: TrainerConfig) -> Values:
    setting = f"tuner.space.{name}"
    if name not in SEARCHED:
        close = difflib.get_close_matches(name, SEARCHED, n=1)
        advice = f"did you mean {close[0]}?" if close else None
        raise SettingError(
            setting, "it cannot be searched", ", ".join(SEARCHED), advice
        )
    scale = values[-1] if values and values[-1] in _SCALES else None
    ends = values if scale is None else values[:-1]
    parsed = [_validate(setting, name, value, trainer) for value in ends]
    if any(first == second for first, second in itertools.combinations(parsed, 2)):
        raise SettingError(
            setting, f"{values}: a value is repeated", advice="name it once"
        )
    if scale is None:
        if len(parsed) < 2:
            raise SettingError(
                setting,
                str(values),
                advice="write at least two values, or a range such as "
                f"[1e-5, 1e-4, log]; a single value belongs to trainer.{name}",
            )
        return parsed
    is_numeric = all(isinstance(end, int | float) for end in parsed)
    if not is_numeric or len(parsed) != 2 or parsed[0] > parsed[1]:
        raise SettingError(
            setting, str(values), f"a range [LOW, HIGH, {scale}], with LOW below HIGH"
        )
    if scale == "log" and parsed[0] <= 0:
        raise SettingError(
            setting,
            str(values),
            "a logarithmic range that begins above 0",
            f"raise {parsed[0]:g}, or write linear",
        )
    low, high = parsed
    return Range(low, high, is_log=scale == "log")


def _validate(setting: str, name: str, value: Any, trainer: TrainerConfig) -> Any:
    if value is None:
        raise SettingError(
            setting, "it has null, which cannot be searched", advice="leave it out"
        )
    try:
        return getattr(merge(trainer, {name: value}), name)
    except ValidationError as error:
        (problem, *_) = error.errors()
        cause = problem.get("ctx", {}).get("error")
        message = cause.sentence() if cause else problem["msg"]
        raise SettingError(setting, f"it has {value!r}: {message}") from error
