"""The settings of the recipe that DataGate and Report need."""

from __future__ import annotations

from modules.config.settings import Settings
from modules.config.task import TaskConfig


class RunSettings(Settings):
    """A recipe's name, and the settings that describe its data.

    Attributes:
      pipeline: Name of the recipe.
      task: The task definition.
      gate_split: The split that thresholds apply to, `evaluator.split`.
      max_seq_length: Longest row in tokens; longer ones are cut.
    """

    pipeline: str
    task: TaskConfig
    gate_split: str
    max_seq_length: int
