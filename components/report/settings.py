"""The settings of Report."""

from __future__ import annotations

from typing import Any

from contracts.section import Settings
from contracts.settings.run_settings import RunSettings
from report.content import LineageStep


class ReportSettings(Settings):
    """The settings that are fixed when the pipeline is compiled.

    Attributes:
      run: The task, and the split that the model was evaluated on.
      vocab_file: One token a line. Its encoder's settings are next to it.
      recipe: The settings that affect a run's results, by section.
      lineage: The steps between the data and the model.
    """

    run: RunSettings
    vocab_file: str
    recipe: dict[str, Any]
    lineage: list[LineageStep]
