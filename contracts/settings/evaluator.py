"""The settings of the recipe that the Evaluator needs, besides those of a run."""

from __future__ import annotations

from typing import Literal

from contracts.section import Settings
from contracts.settings.run_settings import RunSettings
from contracts.settings.slices import SliceSettings

LinearModelMode = Literal["refuse", "report", "ignore"]


class EvaluatorSettings(Settings):
    """What the Evaluator compares a model with.

    Attributes:
      run: The task, and the evaluated split.
      slices: The columns that the evaluation is sliced by, and their thresholds.
      linear_model: `evaluator.linear_model`.
    """

    run: RunSettings
    slices: SliceSettings
    linear_model: LinearModelMode
