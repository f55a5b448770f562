"""Judges the columns that evaluations are sliced by: no values, or too many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contracts.settings.data import MOST_VALUES
from contracts.settings.sections import Sections
from modules.data.judgment import SHOWN, Finding
from modules.data.slice_columns import MISSING
from modules.data.slice_sizes import Counts

# Kinds of findings.
NO_SLICES = "no slices"
MANY_SLICES = "many slices"


def judge(counts: Mapping[str, Counts], settings: Sections) -> Iterator[Finding]:
    """Yields why slices are refused.

    Args:
      counts: The rows of the evaluated split by column.
      settings: The evaluated split.
    """
    split = settings.evaluator.gate_split
    for column, slices in counts.items():
        if not {*slices} - {MISSING}:
            message = (
                f"{split}: no row has a value of {column}, which data.slice_columns "
                "names; add the column to the data, correct its name, or leave it out"
            )
            yield Finding(NO_SLICES, split, message, is_refused=True)
        elif len(slices) > MOST_VALUES:
            shown = ", ".join(map(repr, sorted(slices)[:SHOWN]))
            message = (
                f"{split}: {column} has more than {MOST_VALUES} values, such as "
                f"{shown}, and data.slice_columns makes a slice of each; join rare "
                "values, or leave the column out"
            )
            yield Finding(MANY_SLICES, split, message, is_refused=True)
