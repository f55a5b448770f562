"""What the components of a run conclude, as files."""

from __future__ import annotations

from typing import Any

import pydantic

VERDICT_FILE = "verdict.json"  # of DataGate


class DataVerdict(pydantic.BaseModel):
    """What DataGate concludes.

    Attributes:
      card: Where the rows came from.
      profile: Rows, labels and lengths of each split.
      warnings: What training may suffer from.
      notes: What else differs from the schema.
      problems: Why the data are refused; empty if they are not.
    """

    card: dict[str, Any]
    profile: dict[str, dict[str, Any]] = {}
    warnings: list[str] = []
    notes: list[str] = []
    problems: list[str] = []
