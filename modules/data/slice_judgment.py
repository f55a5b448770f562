"""Judges the slices by columns: values that make no slices, or too small ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contracts.settings.data import MOST_VALUES
from contracts.settings.sections import Sections
from modules.data.judgment import SHOWN, Finding
from modules.data.slice_columns import MISSING
from modules.data.slice_sizes import Counts, count_deciding

# Kinds of findings.
NO_SLICES = "no slices"
MANY_SLICES = "many slices"
SMALL_SLICES = "small slices"


def judge(counts: Mapping[str, Counts], settings: Sections) -> Iterator[Finding]:
    """Yields why slices are refused, or are not judged.

    Args:
      counts: The rows of the evaluated split by column.
      settings: The classes, the evaluated split, and the thresholds of slices.
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
        else:
            for metric in settings.evaluator.slice_thresholds.get(column, {}):
                yield from _judge_sizes(column, slices, metric, settings)


def _judge_sizes(
    column: str, slices: Counts, metric: str, settings: Sections
) -> Iterator[Finding]:
    """Yields the finding of slices that are too small for a threshold, if any."""
    task, split = settings.task, settings.evaluator.gate_split
    least = settings.evaluator.min_slice_rows
    sizes = {
        value: count_deciding(metric, labels, task) for value, labels in slices.items()
    }
    small = {value: size for value, size in sizes.items() if size[0] < least}
    if not small:
        return
    most = sorted(small.items(), key=lambda item: (-item[1][0], item[0]))
    shown = ", ".join(f"{value} ({rows})" for value, (rows, _) in most[:SHOWN])
    more = f" and {len(small) - SHOWN} more" if len(small) > SHOWN else ""
    decides_nothing = len(small) == len(slices)
    effect = "decides nothing" if decides_nothing else "is not applied there"
    message = (
        f"{split}: {len(small)} of {len(slices)} slices by {column} have fewer than "
        f"{least} {most[0][1][1]} (evaluator.min_slice_rows): {shown}"
        f"{more}; evaluator.slice_thresholds.{column} {metric} {effect}: add rows, "
        "join values, or lower evaluator.min_slice_rows"
    )
    yield Finding(SMALL_SLICES, split, message, is_refused=decides_nothing)
