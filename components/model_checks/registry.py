"""Finds checks by their names in a recipe, and their settings."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pydantic

from components.model_checks import checks
from components.model_checks.check import Check
from contracts.errors import SettingError
from contracts.section import Settings
from contracts.settings.checks import CheckSettings


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


class _Checks(Settings):
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
                raise SettingError(
                    str(name),
                    "unknown check",
                    ", ".join(cls.model_fields),
                    "correct the name; a check of your own is MODULE:CLASS",
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
    return ":" in name


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


def make_config() -> type[_Checks]:
    """Returns the class of the section `checks`, with a field for each check."""
    fields: dict[str, Any] = {
        name: (check.Settings, check.Settings())
        for name, check in find_checks().items()
    }
    return pydantic.create_model(
        "ChecksConfig", __base__=_Checks, __doc__=_Checks.__doc__, **fields
    )


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
    try:
        file = directory and find_file(module, directory)
        if file:
            # Installed packages come first: a file beside the recipe may have any name.
            if directory not in sys.path:
                sys.path.append(str(directory))
            spec = importlib.util.spec_from_file_location(module, file)
            assert spec
            assert spec.loader
            loaded = importlib.util.module_from_spec(spec)
            sys.modules[module] = loaded
            spec.loader.exec_module(loaded)
        else:
            loaded = importlib.import_module(module)
        kind = getattr(loaded, class_name)
    except Exception as error:
        raise SettingError(
            f"checks.{name}",
            f"cannot be imported: {type(error).__name__}: {error}",
            advice="write MODULE:CLASS, with MODULE.py beside the recipe or an "
            "installed module",
        ) from error
    if not (inspect.isclass(kind) and issubclass(kind, Check)):
        raise SettingError(
            f"checks.{name}",
            f"{class_name} is not a check",
            advice="derive the class from components.model_checks.Check",
        )
    return kind(), module


def find_file(module: str, directory: str) -> Path | None:
    """Returns the file of a module beside a recipe; None without one."""
    path = Path(directory, *module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


def configure(
    sections: Mapping[str, Any], directory: str | None = None
) -> list[ConfiguredCheck]:
    """Returns the checks of sections, in their order.

    Args:
      sections: The section of each check, as `_Checks.sections` or JSON has it.
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
            section = check.Settings.model_validate(section)
        if section.action != "ignore":
            configured.append(ConfiguredCheck(name, check, section, module))
    return configured
