"""The settings of OlderVersions."""

from __future__ import annotations

import pydantic

from components.serving_check.request import Limits
from modules.config.run_settings import RunSettings
from modules.config.settings import Settings


class OlderVersionsSettings(Settings):
    """What is measured, and the limits of the process of each version.

    Attributes:
      run: The task, and the evaluated split.
      versions: `evaluator.older_versions`.
      rows: `evaluator.older_version_rows`.
      limits: Those of ServingCheck.
      data_version: The hash of the data.
      is_split_here: Whether the pipeline splits the data, without spans. Other data are
        split anew, and an older version may have trained on rows that are evaluated.
    """

    run: RunSettings
    versions: pydantic.PositiveInt
    rows: pydantic.PositiveInt
    limits: Limits
    data_version: str = ""
    is_split_here: bool = False
