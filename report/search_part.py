"""The search of a report, from what TFX's Tuner found."""

from __future__ import annotations

import dataclasses
from typing import Any

from modules.training import trials
from report.content import Search, SearchTrial


def read_search(directory: str, metric: str, space: dict[str, list[Any]]) -> Search:
    """Reads the search of a report.

    Args:
      directory: The `best_hyperparameters` of TFX's Tuner.
      metric: The deciding metric.
      space: `tuner.space` of the recipe.
    """
    _, recorded = trials.read_artifact(directory)
    best = trials.find_best(recorded)
    assert best is not None  # without one, the Tuner fails
    fields = SearchTrial.model_fields.keys()
    return Search(
        metric=metric,
        space=space,
        trials=[
            SearchTrial.model_validate(
                {
                    name: value
                    for name, value in dataclasses.asdict(trial).items()
                    if name in fields
                }
            )
            for trial in recorded
        ],
        best=best.number,
    )
