"""The sections of a recipe that components read, and how a component gets them."""

from __future__ import annotations

import json
from typing import Any

from contracts.packing import Packing
from contracts.section import Settings
from contracts.settings.data import DataConfig
from contracts.settings.data_gate import DataGateConfig
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.serving import ServingConfig
from contracts.task.definition import TaskConfig

Reads = dict[str, bool | set[str]]  # sections as a whole, or some of their settings


class Sections(Settings):
    """The sections of a recipe that components read.

    A component declares as `READS` which settings change its result. It gets them as
    JSON, its execution property `settings`, which is a part of its cache key.
    """

    name: str = ""
    task: TaskConfig = TaskConfig()
    data: DataConfig = DataConfig()
    data_gate: DataGateConfig = DataGateConfig()
    preprocessing: Packing = Packing()
    evaluator: EvaluatorConfig = EvaluatorConfig()
    serving: ServingConfig = ServingConfig()

    @classmethod
    def parse(cls, text: str, **parameters: dict[str, Any]) -> Sections:
        """Reads the settings of a component.

        Other settings are missing, so that their use raises AttributeError: they are
        not in the cache key.

        Args:
          text: JSON of the settings by section. Other sections are ignored.
          **parameters: By section, parameters of the run that replace settings; a
            string is JSON.

        Raises:
          ValueError: A setting or a parameter is not allowed.
        """
        values = json.loads(text)
        for section, replaced in parameters.items():
            values.setdefault(section, {}).update(
                (name, _decode(value)) for name, value in replaced.items()
            )
        known = {name: values[name] for name in cls.model_fields if name in values}
        sections = cls.model_validate_json(json.dumps(known))
        _remove_unset(sections)
        return sections


def _decode(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:  # its section refuses the string by its name
        return value


def _remove_unset(section: Settings) -> None:
    for name in type(section).model_fields:
        if name not in section.model_fields_set:
            del section.__dict__[name]
        elif isinstance(value := getattr(section, name), Settings):
            _remove_unset(value)
