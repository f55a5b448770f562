"""The settings of OlderVersions."""

from __future__ import annotations

from typing import Any

import pydantic

from components.serving_check.request import Limits
from contracts.section import Settings
from contracts.settings.run_settings import RunSettings


class OlderVersionsSettings(Settings):
    """What is measured, and the limits of the process of each version.

    Attributes:
      run: The task, and the evaluated split.
      versions: `evaluator.older_versions`.
      rows: `evaluator.older_version_rows`.
      limits: Those of ServingCheck.
      splitting: The `splitting` of the data's card. None if their splits were not made
        here, or if they are a span. A version whose data were split in another way may
        have trained on rows that are evaluated.
    """

    run: RunSettings
    versions: pydantic.PositiveInt
    rows: pydantic.PositiveInt
    limits: Limits
    splitting: dict[str, Any] | None = None
