"""The settings of the recipe that DataGate and Report need."""

from __future__ import annotations

from collections.abc import Collection

from contracts.packing import Packing
from contracts.section import Settings
from contracts.task.definition import EVAL_SPLIT, TaskConfig


class RunSettings(Settings):
    """A recipe's name, and the settings that describe its data.

    Attributes:
      pipeline: Name of the recipe.
      task: The task definition.
      gate_split: The split that thresholds apply to, `evaluator.split`.
      packing: How texts become model inputs.
    """

    pipeline: str
    task: TaskConfig
    gate_split: str
    packing: Packing


def describe_selection(gate_splits: Collection[str]) -> str:
    """Returns a sentence if the rows that thresholds apply to also chose the model."""
    if EVAL_SPLIT not in gate_splits:
        return ""
    return (
        f"The rows of {EVAL_SPLIT} also chose the model, so its metrics are a little "
        "too good: evaluate it on other rows, such as a split `test`"
    )
