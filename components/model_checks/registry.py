"""Finds checks by their names in a recipe, and their settings."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import inspect
import json
import os
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pydantic

from components.model_checks import checks
from components.model_checks.check import Check
from contracts import fingerprint, user_modules
from contracts.errors import SettingError
from contracts.section import Settings
from contracts.settings.checks import CheckSettings
from contracts.task.definition import TaskConfig


@dataclasses.dataclass(frozen=True)
class ConfiguredCheck:
    """A check with its settings.

    Attributes:
      name: Its name in the recipe.
      check: The check.
      settings: Its section.
      module: The module of the class.
    """

    name: str
    check: Check
    settings: CheckSettings
    module: str


class ChecksSection(Settings):
    """The checks of a model besides its metrics, by name.

    A check of your own has the name `MODULE:CLASS`: a file beside the recipe, or an
    installed module.
    """

    model_config = pydantic.ConfigDict(extra="allow")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_names(cls, values: Any) -> Any:
        for name in values if isinstance(values, dict) else ():
            if name not in cls.model_fields and not is_own(name):
                close = difflib.get_close_matches(str(name), cls.model_fields, n=1)
                raise SettingError(
                    str(name),
                    "unknown check",
                    ", ".join(cls.model_fields),
                    f"did you mean {close[0]}?"
                    if close
                    else "correct the name; a check of your own is MODULE:CLASS",
                )
        return values

    def sections(self) -> Iterator[tuple[str, CheckSettings | dict[str, Any]]]:
        """Yields the name and the section of each check that runs."""
        for name in (*type(self).model_fields, *(self.__pydantic_extra__ or {})):
            section = getattr(self, name)
            action = (
                section.get("action")
                if isinstance(section, dict)
                else getattr(section, "action", None)
            )
            if action != "ignore":
                yield name, {} if section is None else section


def is_own(name: str) -> bool:
    """Returns whether a name is that of a user's own check."""
    return ":" in str(name)


def split_key(key: str) -> list[str]:
    """Splits a dotted key of a recipe; the name of a user's own check may have dots."""
    section, _, rest = key.partition(".")
    module, colon, rest = rest.partition(":")
    if section != "checks" or not colon:
        return key.split(".")
    class_name, *settings = rest.split(".")
    return [section, f"{module}:{class_name}", *settings]


@functools.cache
def find_checks() -> dict[str, Check]:
    """Returns the checks of this package by name."""
    found = {}
    for module in pkgutil.iter_modules(checks.__path__):
        loaded = importlib.import_module(f"{checks.__name__}.{module.name}")
        classes = [
            value
            for value in vars(loaded).values()
            if inspect.isclass(value)
            and issubclass(value, Check)
            and value.__module__ == loaded.__name__
        ]
        (found[module.name],) = (value() for value in classes)
    return found


def make_config() -> type[ChecksSection]:
    """Returns the class of the section `checks`, with a field for each check."""
    fields: dict[str, Any] = {
        name: (check.Settings, check.Settings())
        for name, check in find_checks().items()
    }
    return pydantic.create_model(
        "ChecksConfig",
        __base__=ChecksSection,
        __doc__=ChecksSection.__doc__,
        **fields,
    )


def find_rows_settings() -> Iterator[str]:
    """Yields the dotted key of each setting of this package that is `LabelledRows`."""
    for name, check in find_checks().items():
        for setting in check.Settings.rows_settings():
            yield f"checks.{name}.{setting}"


def validate(
    name: str,
    check: Check,
    settings: CheckSettings,
    task: TaskConfig,
    slice_columns: Sequence[str],
) -> None:
    """Refuses settings that do not fit the task.

    Raises:
      SettingError: A setting does not fit; the error has its dotted key.
    """
    try:
        check.validate(settings, task, slice_columns)
    except SettingError as error:
        error.setting = ".".join(filter(None, ["checks", name, error.setting]))
        raise


def load_own(name: str, directory: str | None) -> tuple[Check, str]:
    """Loads a user's own check.

    Args:
      name: `MODULE:CLASS`.
      directory: The directory of the recipe; None if the recipe has no file.

    Returns:
      The check, and the name of its module.

    Raises:
      SettingError: It cannot be imported, or the class is not a check.
    """
    module, _, class_name = name.partition(":")
    file = fingerprint.find_file(module, directory) if directory else None
    if file:
        user_modules.refuse_name(f"checks.{name}", module)
    try:
        if file:
            loaded = user_modules.load_file(module, file, str(directory))
        else:
            loaded = importlib.import_module(module)
    except Exception as error:
        advice = (
            f"correct {file}"
            if file
            else "write MODULE:CLASS, with MODULE.py beside the recipe or an installed "
            "module"
        )
        raise SettingError(
            f"checks.{name}",
            f"cannot be imported: {type(error).__name__}: {error}",
            advice=advice,
        ) from error
    kind = getattr(loaded, class_name, None)
    if kind is None:
        raise SettingError(
            f"checks.{name}",
            f"{module} has no class {class_name}",
            advice=f"correct the name, or add the class to {file or module}",
        )
    problem = ""
    if not (inspect.isclass(kind) and issubclass(kind, Check)):
        problem = "is not a class derived from Check"
    elif inspect.isabstract(kind):
        problem = "has no method run"
    elif not hasattr(kind, "title"):
        problem = "has no title"
    if problem:
        raise SettingError(
            f"checks.{name}",
            f"{class_name} {problem}",
            advice="see components.model_checks.Check",
        )
    return kind(), module


def judges_data(check: Check) -> bool:
    """Returns whether a check has a hook that DataGate calls."""
    return any(
        getattr(type(check), name) is not getattr(Check, name)
        for name in ("texts_to_find", "judge_data")
    )


def parse_section(check: Check, section: Any) -> CheckSettings:
    """Returns the settings of a check.

    Args:
      check: The check.
      section: JSON, in which a list may be a tuple of the settings.

    Raises:
      pydantic.ValidationError: A setting is not allowed.
    """
    return check.Settings.model_validate_json(json.dumps(section, default=str))


def parse(text: str, folder: str) -> list[ConfiguredCheck]:
    """Returns the checks of a component's parameter.

    Args:
      text: JSON of `sections` and `directory`, as for `configure`; the directory may be
        remote.
      folder: Where the files of a remote directory are copied to.

    Raises:
      ValueError: As of `configure`.
    """
    content = json.loads(text)
    target = os.path.join(folder, "checks")
    directory = user_modules.fetch(content.get("directory"), target)
    return configure(content.get("sections", {}), directory)


def configure(
    sections: Mapping[str, Any], directory: str | None = None
) -> list[ConfiguredCheck]:
    """Returns the checks of sections, in their order.

    Args:
      sections: The section of each check, as `ChecksSection.sections` or JSON has it.
      directory: Contains the files of a user's own checks; None without any.

    Raises:
      ValueError: A setting is not allowed, or a check cannot be imported.
    """
    configured = []
    for name, section in sections.items():
        if is_own(name):
            check, module = load_own(name, directory)
        else:
            check = find_checks()[name]
            module = type(check).__module__
        if not isinstance(section, CheckSettings):
            section = parse_section(check, section)
        if section.action != "ignore":
            configured.append(ConfiguredCheck(name, check, section, module))
    return configured
