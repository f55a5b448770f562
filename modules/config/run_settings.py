"""What DataGate and the report of a run need of the recipe."""

from __future__ import annotations

from modules.config.settings import Settings
from modules.config.task import TaskConfig


class RunSettings(Settings):
    """A recipe's name, and what its data are judged and described by.

    Attributes:
      pipeline: Name of the recipe.
      task: The task definition.
      gate_split: The split that decides, `evaluator.split`.
      max_seq_length: Tokens from which rows are cut.
    """

    pipeline: str
    task: TaskConfig
    gate_split: str
    max_seq_length: int
