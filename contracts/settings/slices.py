"""The settings of the slices by columns of the data."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import PositiveInt

from contracts.section import Settings
from contracts.settings.slice_features import slice_keys
from contracts.task.definition import TOKENIZED_FEATURES, TaskConfig

MOST_VALUES = 50  # of a column; each is a slice


class SliceSettings(Settings):
    """The columns that the evaluation is sliced by, and what a model must reach there.

    Attributes:
      columns: `data.slice_columns`.
      thresholds: `evaluator.slice_thresholds`.
      min_rows: `evaluator.min_slice_rows`.
    """

    columns: list[str]
    thresholds: dict[str, dict[str, float]]
    min_rows: PositiveInt


def find_problem(columns: Sequence[str], task: TaskConfig) -> str | None:
    """Returns why an evaluation cannot be sliced by some columns, or None."""
    tokens = TOKENIZED_FEATURES if task.is_tokenized else ()
    problems: dict[str, set[str]] = {
        "twice": {column for column in columns if columns.count(column) > 1},
        "a column of the task": {*columns}
        & {*task.columns, *task.label_columns, *tokens},
        "by which each evaluation is sliced": {*columns} & {*slice_keys(task)},
        "without a character": {column for column in columns if not column},
    }
    for problem, names in problems.items():
        for name in sorted(names):
            return f"data.slice_columns names {name!r}, {problem}; leave it out"
    return None
