"""The section `evaluator` of a recipe."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from pydantic import Field, field_validator

from contracts.errors import SettingError
from contracts.section import Settings
from contracts.settings.data import SPLITS, TEST
from contracts.task.definition import EVAL_SPLIT, TRAIN_SPLIT


class EvaluatorConfig(Settings):
    """The quality that a model must reach before it is pushed.

    Attributes:
      split: Split that the thresholds apply to; not `train`. None takes `test`. If the
        data lack it, `eval` is halved into `eval` and `test`, or evaluated as a whole
        if its halves are too small for `data_gate.max_interval`. The rows of `eval`
        also choose the checkpoint, so that a model seems a little better on them.
      thresholds: Lowest value by metric, in the range of the metric.
      max_regression: How far below the champion each metric may be. On n rows an
        accuracy p has a standard error of sqrt(p (1 - p) / n): a smaller drop is noise.
      significance: A model is also refused if it is worse than the champion in
        `task.metric`, on all rows or in a slice, and a test on the same rows has a
        p-value below this. 0 turns the test off. A bootstrap, for metrics other than
        accuracy, has no p-value below 0.002.
      incompatible_champion: What happens if the champion, the model that was pushed
        last, has other text columns, classes or range. `ignore` applies only the
        thresholds and reports it in the verdict; `refuse` stops the run before
        training.
    """

    split: str | None = None
    thresholds: dict[str, float] = Field(default_factory=dict)
    max_regression: dict[str, float] = Field(default_factory=dict)
    significance: float = Field(default=0.05, ge=0, lt=1)
    incompatible_champion: Literal["ignore", "refuse"] = "ignore"

    @field_validator("split")
    @classmethod
    def _check_split(cls, split: str | None) -> str | None:
        allowed = [name for name in SPLITS if name != TRAIN_SPLIT]
        if split is not None and split not in allowed:
            raise SettingError(allowed=", ".join(allowed))
        return split

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
