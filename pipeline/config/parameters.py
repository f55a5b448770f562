"""The parameters of a run: settings that can change without compiling again."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from typing import Any

from contracts.errors import SettingError
from contracts.storage import uris
from pipeline.config.recipe import Config, parse_value

# Run parameter: the setting that it replaces, which holds its default.
_SETTINGS = {
    "epochs": "trainer.epochs",
    "steps_per_epoch": "trainer.steps_per_epoch",
    "learning_rate": "trainer.learning_rate",
    "thresholds": "evaluator.thresholds",
    "max_regression": "evaluator.max_regression",
    "significance": "evaluator.significance",
}
TRAINER_SETTINGS = tuple(
    setting.removeprefix("trainer.")
    for setting in _SETTINGS.values()
    if setting.startswith("trainer.")
)
# It replaces the prepared examples, not `data.source`, which may be text.
_DATA = "data"
_NAMES = (_DATA, *_SETTINGS)


def make_parameters(
    config: Config, examples: str, make: Callable[[str, Any], Any]
) -> dict[str, Any]:
    """Returns the parameters by name: values, or the orchestrator's placeholders.

    Mappings are JSON. 0 for `epochs` and `learning_rate` takes what the search finds,
    0 for `steps_per_epoch` reads every row once.

    Args:
      config: The settings with their defaults.
      examples: Directory of the Examples, the default of `data`.
      make: Makes a parameter from its name and default.
    """
    defaults: dict[str, Any] = {
        name: functools.reduce(getattr, setting.split("."), config)
        for name, setting in _SETTINGS.items()
    }
    if config.tuner is not None:
        for name in config.tuner.space.keys() & defaults.keys():
            defaults[name] = type(defaults[name])(0)
    values = {_DATA: examples} | {
        name: encode(value) for name, value in defaults.items()
    }
    return {name: make(name, value) for name, value in values.items()}


def parse(texts: Iterable[str]) -> dict[str, Any]:
    """Reads parameters of the command line, each `NAME=VALUE`, with values in YAML.

    Raises:
      UsageError: A parameter is unknown, its value is missing or not YAML, or TFX would
        read `data` as a file pattern.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        name = name.strip()
        allowed = None
        if not separator:
            allowed = "NAME=VALUE, such as epochs=2"
        elif name not in _NAMES:
            allowed = f"a value of {', '.join(_NAMES)}"
        else:
            key = _SETTINGS.get(name, "data.source")
            values[name] = parse_value(key, value, "values")
            if values[name] is None:
                allowed = f"{name}=VALUE"
            elif name == _DATA and not isinstance(values[name], str):
                allowed = f"{name}=DIR"
        if allowed:
            raise SettingError("values", repr(text), allowed)
        if name == _DATA:
            uris.refuse_pattern("values", values[name])
    return values


def as_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that parameters replace, to be validated as such."""
    settings = {_SETTINGS[name]: values[name] for name in _SETTINGS if name in values}
    if values.get("steps_per_epoch") == 0:
        settings[_SETTINGS["steps_per_epoch"]] = None
    return settings


def encode(value: Any) -> Any:
    """Returns a value as a run's parameter: 0 for None, and JSON for a mapping."""
    # TFX's RuntimeParameter has only the types int, float and str.
    if value is None:
        return 0
    return json.dumps(value) if isinstance(value, dict) else value
