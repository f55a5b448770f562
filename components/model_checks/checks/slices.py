"""Checks the metrics of slices by their thresholds, and finds their largest gap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field, PositiveInt

from components.model_checks.check import Check, Data, Model, NotApplicable, Texts
from contracts import metrics, wording
from contracts.errors import SettingError
from contracts.records.checks import Cell, CheckResult, Table
from contracts.records.evaluation import Slice, find_shortfall
from contracts.settings.checks import CheckSettings
from contracts.settings.data import MOST_VALUES
from contracts.task.definition import TaskConfig

if TYPE_CHECKING:
    from modules.data.judgment import Finding
    from modules.data.slice_sizes import Counts

SMALL_SLICES = "small slices"  # kind of finding
_SHOWN = 3  # slices that a message names
_ADVICE = "add such rows to train, check their labels, or lower the threshold"


class SlicesCheck(Check):
    """Finds slices below their thresholds, and those with the lowest metric."""

    class Settings(CheckSettings):
        """The lowest metrics of slices.

        Attributes:
          thresholds: Lowest value by metric in each slice by a column of
            `data.slice_columns`, such as `{region: {accuracy: 0.7}}`.
          min_rows: A threshold applies to slices with this many rows that its metric
            counts, because fewer could refuse any model.
        """

        thresholds: dict[str, dict[str, float]] = Field(default_factory=dict)
        min_rows: PositiveInt = 30

    title = "Slices"

    def validate(
        self, settings: Settings, task: TaskConfig, slice_columns: Sequence[str]
    ) -> None:
        """Refuses thresholds of other columns or metrics, or out of their range."""
        table = task.metric_table
        for column, thresholds in settings.thresholds.items():
            if column not in slice_columns:
                raise SettingError(
                    "thresholds",
                    f"names {column!r}, which data.slice_columns lacks",
                    ", ".join(slice_columns) or None,
                    advice="add it to data.slice_columns",
                )
            for name, threshold in thresholds.items():
                key = f"thresholds.{column}"
                if name not in task.metrics:
                    allowed = metrics.shorten(task.metrics)
                    raise SettingError(key, f"names {name!r}", allowed)
                low, high = table[name].low, table[name].high
                if not low <= threshold <= high:
                    raise SettingError(
                        key, f"{name} is {threshold}", f"{low:g} to {high:g}"
                    )

    def judge_data(
        self,
        settings: Settings,
        task: TaskConfig,
        split: str,
        slices: Mapping[str, Counts],
        in_train: list[Texts],
    ) -> Iterator[Finding]:
        """Yields the slices that are too small for a threshold."""
        from modules.data.judgment import SHOWN, Finding
        from modules.data.slice_columns import MISSING
        from modules.data.slice_sizes import count_deciding

        bounds = [
            (column, values, metric)
            for column, values in slices.items()
            if {*values} - {MISSING} and len(values) <= MOST_VALUES  # else refused
            for metric in settings.thresholds.get(column, {})
        ]
        for column, values, metric in bounds:
            sizes = {
                value: count_deciding(metric, labels, task)
                for value, labels in values.items()
            }
            small = [value for value in sizes if sizes[value][0] < settings.min_rows]
            if not small:
                continue
            small.sort(key=lambda value: (-sizes[value][0], value))
            shown = ", ".join(f"{value} ({sizes[value][0]})" for value in small[:SHOWN])
            more = f" and {len(small) - SHOWN} more" if len(small) > SHOWN else ""
            decides_nothing = len(small) == len(values)
            effect = "decides nothing" if decides_nothing else "is not applied there"
            message = (
                f"{split}: {len(small)} of {len(values)} slices by {column} have fewer "
                f"than {settings.min_rows} {sizes[small[0]][1]} "
                f"(checks.slices.min_rows): {shown}{more}; checks.slices.thresholds."
                f"{column} {metric} {effect}: add rows, join values, or lower "
                "checks.slices.min_rows"
            )
            yield Finding(SMALL_SLICES, split, message, is_refused=decides_nothing)

    def run(self, model: Model, data: Data, settings: Settings) -> CheckResult:
        """Compares slices with their thresholds, and with each other."""
        if not data.facts.slices:
            raise NotApplicable("the evaluation has no slices")
        metric = data.task.metric
        bounds = list(_find_bounds(data, settings))
        gaps = _find_gaps(data, settings.min_rows)
        if not bounds and not gaps:
            rows = wording.count(settings.min_rows, "row")
            raise NotApplicable(f"no feature has two slices with {rows} or more")
        failures = [bound.failure for bound in bounds if bound.failure]
        if failures:
            more = len(failures) - _SHOWN
            sentence = "; ".join(failures[:_SHOWN]) + (f"; {more} more" * (more > 0))
        elif gaps:
            ((size, low, high), *_) = gaps
            sentence = (
                f"the largest gap is {size:.3f}: {metric} is {low.metrics[metric]:.3f} "
                f"in the slice {low.name} and {high.metrics[metric]:.3f} in {high.name}"
            )
        else:
            sentence = "no slice is below its thresholds"
        cells: dict[tuple[str, str], list[Cell]] = {
            (part.name, metric): [part.metrics[metric], None]
            for _, *parts in gaps
            for part in parts
        }
        for part, name, threshold in bounds:
            cells[part.name, name] = [part.metrics.get(name), threshold]
        return CheckResult(
            status=settings.failed if failures else "passed",
            sentence=sentence,
            advice=_ADVICE if failures else "",
            figures={f"gap by {part.feature}": size for size, part, _ in gaps},
            table=Table(
                columns=["slice", "metric", "value", "threshold"],
                rows=[[*key, *cells[key]] for key in sorted(cells)],
            ),
            error="E-below-threshold",
        )


class _Bound(NamedTuple):
    """The threshold of a metric in a slice."""

    part: Slice
    metric: str
    threshold: float

    @property
    def failure(self) -> str:
        """Why the slice does not reach it; empty if it does."""
        value = self.part.metrics.get(self.metric, math.nan)
        reason = find_shortfall(self.metric, value, self.threshold)
        setting = f"checks.slices.thresholds.{self.part.feature}"
        return reason and f"in the slice {self.part.name}, by {setting}: {reason}"


def _find_bounds(data: Data, settings: SlicesCheck.Settings) -> Iterator[_Bound]:
    """Yields the thresholds that apply: the slice has the least number of rows."""
    from modules.data import slice_sizes

    task = data.task
    for column, thresholds in settings.thresholds.items():
        rows, counts = data.rows(), dict[str, dict[float, int]]()
        for value, label in zip(rows.slices[column], rows.labels.tolist(), strict=True):
            slice_sizes.count_row(counts, value, label, task)
        for part in data.facts.slices:
            if part.feature != column or part.value not in counts:
                continue
            for name, threshold in thresholds.items():
                counted, _ = slice_sizes.count_deciding(name, counts[part.value], task)
                if counted >= settings.min_rows:
                    yield _Bound(part, name, threshold)


def _find_gaps(data: Data, min_rows: int) -> list[tuple[float, Slice, Slice]]:
    """Returns the gap, lowest and highest slice of each feature, largest gap first."""
    metric, by_feature = data.task.metric, dict[str, list[Slice]]()
    for part in data.facts.slices:
        if part.rows >= min_rows and metric in part.metrics:
            by_feature.setdefault(part.feature, []).append(part)
    gaps = []
    for parts in by_feature.values():
        if len(parts) > 1:
            parts.sort(key=lambda part: part.metrics[metric])
            size = parts[-1].metrics[metric] - parts[0].metrics[metric]
            gaps.append((size, parts[0], parts[-1]))
    return sorted(gaps, key=lambda gap: -gap[0])
