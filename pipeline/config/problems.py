"""Problems of settings as errors of usage."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from contracts import setting_problems
from contracts.errors import UsageError
from contracts.section import Settings
from pipeline.config import typed_yaml

_REMOVED = {"tuner.service": "Optuna proposes the settings"}  # key: what holds now
# The checks of a model became a section of their own.
RENAMED = {
    "evaluator.linear_model": "checks.linear_model.action; `report` is now `warn`",
    "evaluator.min_slice_rows": "checks.slices.min_rows and "
    "checks.linear_model.min_slice_rows",
    "evaluator.slice_thresholds": "checks.slices.thresholds",
    "evaluator.group_words": "checks.swapped_words.lists",
    "evaluator.max_changed_by_words": "checks.swapped_words.max_changed",
    "evaluator.changed_by_words": "checks.swapped_words.action",
    "evaluator.older_versions": "checks.older_versions.count",
    "evaluator.older_version_rows": "checks.older_versions.rows",
    "serving.max_latency_ratio": "checks.latency.max_ratio",
}


def find(
    error: ValidationError,
    model: type[Settings],
    section: str = "",
    name: str = "E-settings-refused",
) -> list[UsageError]:
    """Returns an error of usage for each problem that pydantic has found."""
    return [_describe(detail, model, section, name) for detail in error.errors()]


def find_unknown(
    model: type[Settings],
    location: Sequence[Any],
    section: str = "",
    name: str = "E-settings-refused",
) -> UsageError | None:
    """Returns an error if a setting does not exist, with a similar name."""
    kind: Any = model
    for number, part in enumerate(location, 1):
        known = typed_yaml.members(kind)
        if known is not None and part not in known:
            key = setting_problems.join(section, *location[:number])
            if key in _REMOVED:
                got = f"removed: {_REMOVED[key]}"
                return UsageError(key, got, advice="leave it out", name=name)
            if key in RENAMED:
                new = f"set {RENAMED[key]}"
                return UsageError(key, "renamed", advice=new, name=name)
            close = difflib.get_close_matches(part, known, n=1)
            if not close and number == 1:  # the key may lack its section
                close = _complete(part, model, known)
            advice = f"did you mean {close[0]}?" if close else None
            return UsageError(key, "unknown key", ", ".join(known), advice, name=name)
        kind = typed_yaml.member(kind, part)
    return None


def combine(problems: Sequence[UsageError]) -> UsageError:
    """Returns the only problem, or an error with a line for each."""
    first, *more = problems
    if not more:
        return first
    lines = [problem.sentence(lambda name, _: name) for problem in problems]
    text = "\n  ".join([f"{len(problems)} settings are refused:", *lines])
    return UsageError(got=text, name=first.name)


def _complete(name: str, model: type[Settings], sections: Sequence[str]) -> list[str]:
    """Returns the key of a similar setting in one of the sections."""
    keys = {
        leaf: f"{section}.{leaf}"
        for section in sections
        for leaf in typed_yaml.members(typed_yaml.member(model, section)) or ()
    }
    return [keys[leaf] for leaf in difflib.get_close_matches(name, keys, n=1)]


def _describe(
    detail: Any, model: type[Settings], section: str, name: str
) -> UsageError:
    location, value = detail["loc"], detail["input"]
    key = setting_problems.join(section, *location)
    if detail["type"] == "extra_forbidden":
        unknown = find_unknown(model, location, section, name)
        return unknown or UsageError(key, "unknown key", name=name)
    if detail["type"] == "missing":
        advice = f"add it, or give `{key}=VALUE`"
        return UsageError(key, "missing", advice=advice, name=name)
    if detail["type"] in ("model_type", "model_attributes_type"):
        return UsageError(key, repr(value), "a mapping of settings", name=name)
    return setting_problems.describe(detail, section, name)
