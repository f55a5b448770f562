"""The section `evaluator` of a recipe."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from contracts.errors import SettingError
from contracts.section import Settings
from contracts.settings.data import SPLITS, TEST
from contracts.task.definition import EVAL_SPLIT, TRAIN_SPLIT

# By the name of a list, its rows. A column has the words for a group, and a row those
# that replace each other.
GroupWords = dict[str, list[list[str]]]

WORD = re.compile(r"\w+(?:[-\u2010]\w+)*")


class EvaluatorConfig(Settings):
    """The quality that a model must reach before it is pushed.

    Attributes:
      split: Split that the thresholds apply to; not `train`. None takes `test`. If the
        data lack it, `eval` is halved into `eval` and `test`, or evaluated as a whole
        if its halves are too small for `data_gate.max_interval`. The rows of `eval`
        also choose the checkpoint, so that a model seems a little better on them.
      thresholds: Lowest value by metric, in the range of the metric.
      slice_thresholds: The same in each slice by a column of `data.slice_columns`, such
        as `{region: {accuracy: 0.7}}`.
      min_slice_rows: A threshold applies to slices with this many rows that its metric
        counts, because fewer could refuse any model. So does the comparison with a
        linear model.
      max_regression: How far below the champion each metric may be. On n rows an
        accuracy p has a standard error of sqrt(p (1 - p) / n): a smaller drop is noise.
      significance: A model is also refused if it is worse than the champion in
        `task.metric`, on all rows or in a slice, and a test on the same rows has a
        p-value below this. 0 turns the test off. A bootstrap, for metrics other than
        accuracy, has no p-value below 0.002.
      linear_model: Whether each run also trains a linear model on words. `refuse`: a
        model is refused if it is worse than that in `task.metric` on all rows, or in a
        slice with `min_slice_rows` rows, by the test of `significance`. `report` only
        reports both, and `ignore` trains none.
      group_words: Words for groups of people that are swapped in evaluated texts, by
        the name of a list, such as `{age: [[young, old], [boy, man]]}`: a column has
        the words for a group, a row those that replace each other. None takes the
        English lists of `components/serving_check/group_words.json`, `{}` swaps none.
      max_changed_by_words: The share of the rows with such a word whose prediction may
        change. More is a warning, if the 95 % interval of the share is above this.
      changed_by_words: `refuse` refuses the model instead of a warning.
      incompatible_champion: What happens if the champion, the model that was pushed
        last, has other text columns, classes or range. `ignore` applies only the
        thresholds and reports it in the verdict; `refuse` stops the run before
        training.
      older_versions: How many older pushed versions each run measures on the rows of
        `split`, the newest first, to show how the model ages. They decide nothing. 0
        measures none.
      older_version_rows: Most rows of `split` to predict with each of them; of more, a
        sample is predicted.
    """

    split: str | None = None
    thresholds: dict[str, float] = Field(default_factory=dict)
    slice_thresholds: dict[str, dict[str, float]] = Field(default_factory=dict)
    min_slice_rows: PositiveInt = 30
    max_regression: dict[str, float] = Field(default_factory=dict)
    significance: float = Field(default=0.05, ge=0, lt=1)
    linear_model: Literal["refuse", "report", "ignore"] = "refuse"
    group_words: GroupWords | None = None
    max_changed_by_words: float = Field(default=0.05, ge=0, le=1)
    changed_by_words: Literal["warn", "refuse"] = "warn"
    incompatible_champion: Literal["ignore", "refuse"] = "ignore"
    older_versions: NonNegativeInt = 3
    older_version_rows: PositiveInt = 1000

    @field_validator("split")
    @classmethod
    def _check_split(cls, split: str | None) -> str | None:
        allowed = [name for name in SPLITS if name != TRAIN_SPLIT]
        if split is not None and split not in allowed:
            raise SettingError(allowed=", ".join(allowed))
        return split

    @field_validator("group_words")
    @classmethod
    def _check_group_words(cls, lists: GroupWords | None) -> GroupWords | None:
        for name, rows in (lists or {}).items():
            sizes = {len(row) for row in rows}
            if len(sizes) != 1 or min(sizes) < 2:
                raise SettingError(
                    got=f"{name!r} has rows of {sorted(sizes)} words",
                    advice="give one row or more, and in each a word for each of the "
                    "same two or more groups, such as [[he, she], [man, woman]]",
                )
            for word in (word for row in rows for word in row):
                if not WORD.fullmatch(word):
                    raise SettingError(
                        got=f"{name!r} has {word!r}, which is not one word",
                        advice="leave its row out, or write words of letters, digits "
                        "and hyphens",
                    )
            columns = [
                {word.lower() for word in column} for column in zip(*rows, strict=True)
            ]
            counts = Counter(word for column in columns for word in column)
            for word in (word for word, count in counts.items() if count > 1):
                raise SettingError(
                    got=f"{name!r} has {word!r} for two groups",
                    advice="let a word name one of them",
                )
        return lists

    @property
    def gate_split(self) -> str:
        """The split that thresholds apply to; `test` before the splits are known."""
        return self.split or TEST


def describe_selection(gate_splits: Collection[str]) -> str:
    """Returns a sentence if the rows that thresholds apply to also chose the model."""
    if EVAL_SPLIT not in gate_splits:
        return ""
    return (
        f"The rows of {EVAL_SPLIT} also chose the model, so its metrics are a little "
        "too good: evaluate it on other rows, such as a split `test`"
    )
