"""The label kind of a task, or of a model by its description."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from contracts.task.classes import Classes
from contracts.task.label_kind import LabelKind
from contracts.task.score import Score
from contracts.task.several_labels import SeveralLabels


def from_settings(
    kind: str | None,
    classes: Sequence[str] | None,
    label_range: Sequence[float] | None,
) -> LabelKind:
    """Returns the kind that the settings of a task select."""
    names = None if classes is None else tuple(classes)
    return _make(kind, names, tuple(label_range or (0.0, 1.0)))


def from_description(described: Mapping[str, Any]) -> LabelKind:
    """Returns the kind of a model."""
    keys = ("kind", "classes", "label_range")
    return from_settings(*(described.get(key) for key in keys))


@functools.lru_cache(maxsize=64)
def _make(
    kind: str | None, names: tuple[str, ...] | None, label_range: tuple[float, float]
) -> LabelKind:
    if kind == "multilabel":
        return SeveralLabels(names or ())
    if names is not None:
        return Classes(names)
    return Score((), label_range=label_range)
