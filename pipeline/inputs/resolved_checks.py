"""Resolves the checks of a run: a user's own classes, and files of labelled rows."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from components.model_checks import registry
from components.model_checks.check import Check
from components.model_checks.registry import ConfiguredCheck
from contracts import fingerprint
from contracts.records.labelled_rows import LabelledFile
from contracts.settings.checks import CheckSettings
from ingest.examples import labelled_file
from pipeline.config import problems
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config, anchor


@dataclasses.dataclass(frozen=True)
class ResolvedChecks:
    """The checks of a run.

    Attributes:
      sections: The section of each check as JSON. Its files of labelled rows are those
        that `labelled_rows.read_rows` reads.
      fingerprints: By check, the hash of its code and of its labelled rows.
      directory: Contains the modules of a user's own checks; None without any.
      modules: Their files and those that they import, relative to it.
      rows: Check and setting of each file of labelled rows.
      data_checks: The checks that judge the data before training.
      late_checks: The checks that run after the push.
    """

    sections: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    fingerprints: dict[str, str] = dataclasses.field(default_factory=dict)
    directory: str | None = None
    modules: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    data_checks: tuple[str, ...] = ()
    late_checks: tuple[str, ...] = ()

    @property
    def of_data(self) -> ResolvedChecks:
        """The checks that judge the data, so that others do not rerun DataGate."""
        return self._choose(self.data_checks)

    def _choose(self, names: Collection[str]) -> ResolvedChecks:
        has_own = any(map(registry.is_own, names))
        return dataclasses.replace(
            self,
            sections={k: v for k, v in self.sections.items() if k in names},
            fingerprints={k: v for k, v in self.fingerprints.items() if k in names},
            directory=self.directory if has_own else None,
            modules=self.modules if has_own else (),
            rows=tuple(pair for pair in self.rows if pair[0] in names),
        )

    @property
    def by_stage(self) -> tuple[ResolvedChecks, ResolvedChecks]:
        """The checks that run before the push, and those that run after it."""
        late = self.late_checks
        return self._choose({*self.sections} - {*late}), self._choose(late)

    def configure(self) -> list[ConfiguredCheck]:
        """Returns the checks with their settings."""
        return registry.configure(self.sections, self.directory)

    def as_json(self) -> str:
        """Returns what `registry.parse` reads; the fingerprints are for cache keys."""
        return json.dumps(
            {
                "sections": self.sections,
                "fingerprints": self.fingerprints,
                "directory": self.directory,
            },
            sort_keys=True,
        )


def load_checks(
    config: Config,
) -> list[tuple[ConfiguredCheck, dict[str, LabelledFile]]]:
    """Imports a user's own checks, and reads the files of all; writes nothing.

    Returns:
      The checks, and the rows by setting.

    Raises:
      UsageError: A check cannot be imported, a setting is not allowed, or a row of a
        file is bad.
    """
    directory, task = config.directory, config.task
    loaded = []
    for name, section in config.checks.sections():
        if isinstance(section, CheckSettings):
            check = registry.find_checks()[name]
            module = type(check).__module__
        else:
            check, module = registry.load_own(name, directory)
            section = _validate(name, check, section, config)
        if section.action == "ignore":
            continue
        files = {
            setting: LabelledFile(
                rows=labelled_file.read(path, task, f"checks.{name}.{setting}")
            )
            for setting in section.rows_settings()
            if (path := getattr(section, setting))
        }
        loaded.append((ConfiguredCheck(name, check, section, module), files))
    return loaded


def resolve_checks(config: Config, paths: OutputPaths) -> ResolvedChecks:
    """Resolves the checks, and writes the rows of their files.

    Raises:
      UsageError: See `load_checks`.
    """
    directory = config.directory
    sections, fingerprints, rows, data_checks, late_checks = {}, {}, [], [], []
    modules: set[str] = set()
    for configured, files in load_checks(config):
        name, module = configured.name, configured.module
        section = configured.settings.model_dump(mode="json")
        if registry.is_own(name):
            hashes, imported = find_code(module, directory)
            modules |= imported
        else:
            hashes = [fingerprint.of_code(module)]
        for setting, file in files.items():
            hashes.append(fingerprint.of_json(file.as_json()))
            folder = paths.labelled_rows(hashes[-1])
            file.write(str(folder))
            section[setting] = str(folder / file.FILE)
            rows.append((name, setting))
        sections[name] = section
        fingerprints[name] = fingerprint.of_text(*hashes)
        if registry.judges_data(configured.check):
            data_checks.append(name)
        if configured.check.runs_after_push:
            late_checks.append(name)
    return ResolvedChecks(
        sections,
        fingerprints,
        directory if modules else None,
        tuple(sorted(modules)),
        tuple(rows),
        tuple(data_checks),
        tuple(late_checks),
    )


def find_code(module: str, directory: str | None) -> tuple[list[str], set[str]]:
    """Returns the hashes of a user's code, and its files relative to a directory.

    Args:
      module: The module.
      directory: That of the recipe. The module is installed if its file is not there.
    """
    if directory and fingerprint.find_file(module, directory):
        local = fingerprint.closure(module, packages=(), directory=directory)
        code = fingerprint.closure(module, directory=directory)
        ours = (code[path] for path in sorted(code.keys() - local.keys()))
        hashes = [fingerprint.of_files(local), fingerprint.of_text(*ours)]
        return hashes, {os.path.relpath(path, directory) for path in local}
    packages = [module.split(".")[0], *fingerprint.FIRST_PARTY]
    imported = fingerprint.closure(module, packages=packages)
    return [fingerprint.of_files(imported)], set()


def _validate(name: str, check: Check, section: Any, config: Config) -> CheckSettings:
    """Returns the settings of a user's own check, every path absolute."""
    try:
        settings = registry.parse_section(check, section)
    except ValidationError as error:
        found = problems.find(error, check.Settings, f"checks.{name}")
        raise problems.combine(found) from error
    registry.validate(name, check, settings, config.task, config.data.slice_columns)
    paths = {
        setting: anchor(path, config.directory or os.getcwd())
        for setting in settings.rows_settings()
        if (path := getattr(settings, setting))
    }
    return settings.model_copy(update=paths)
