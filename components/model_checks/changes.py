"""Predicts rows with changed texts, and measures what the changes do."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from components.model_checks.check import Data, Model, NotApplicable, Rows, Texts
from components.model_checks.perturbations import Perturbation
from contracts.metrics import CONFIDENCE
from contracts.records.checks import Cell, CheckResult, ShownRow, Table
from contracts.records.evaluation import Estimate
from contracts.settings.checks import CheckSettings
from contracts.task.definition import NO_ID, TaskConfig
from modules.data import sampling

_SHOWN = 5  # rows that change most, of each perturbation
_EQUAL = 1e-6  # a smaller change is a rounding error


@dataclasses.dataclass(frozen=True)
class Change:
    """What a perturbation does to the predictions.

    Attributes:
      name: The perturbation.
      rows: The rows that it changes.
      versions: Their versions.
      failed: Rows with a version whose prediction is not as expected.
      interval: The 95 % interval of their share (Clopper and Pearson 1934).
      mean_change: Mean change of the output over the versions.
      shown: The rows that change most.
    """

    name: str
    rows: int
    versions: int
    failed: int
    interval: tuple[float, float]
    mean_change: float
    shown: list[ShownRow]

    @property
    def in_rows(self) -> str:
        """In how many rows the prediction is not as expected."""
        values = (self.share.value, *self.interval)
        share, low, high = (f"{100 * value:.1f} %" for value in values)
        return (
            f"in {self.failed:,} of {self.rows:,} rows ({share}, 95 % interval {low} "
            f"to {high})"
        )

    @property
    def share(self) -> Estimate:
        """The share of the rows that failed."""
        return Estimate(value=self.failed / self.rows, interval=self.interval)


@dataclasses.dataclass(frozen=True)
class ChangedRows:
    """The rows that a perturbation changes, and the outputs for their versions.

    Attributes:
      name: The perturbation.
      model: The model.
      rows: All rows of the split.
      indices: The index of the row of each version, int64[versions].
      versions: The changed texts.
      before: Outputs for the texts of the rows, float64[versions, classes], or scores
        float64[versions].
      after: Outputs for the versions, in the same shape.
    """

    name: str
    model: Model
    rows: Rows
    indices: np.ndarray
    versions: list[Texts]
    before: np.ndarray
    after: np.ndarray

    def compare(self) -> Change:
        """Measures how many predictions change; see `LabelKind.compare`."""
        kind = self.model.task.label_kind
        change, failed = kind.compare(self.before, self.after, self.model.threshold)
        if kind.has_flags:
            shown = np.abs(self.after - self.before).argmax(axis=1)
        elif kind.names:
            shown = kind.predict(self.before, self.model.threshold)
        else:
            shown = None
        return self.measure(failed, change, change, shown)

    def measure(
        self,
        failed: np.ndarray,
        badness: np.ndarray,
        change: np.ndarray,
        shown: np.ndarray | None,
    ) -> Change:
        """Measures how many predictions are not as expected, of at least one version.

        Args:
          failed: Whether the prediction is not as expected, bool[versions].
          badness: What the shown rows are ordered by, float64[versions].
          change: The change of the output, float64[versions].
          shown: The class or label whose probabilities are shown, int64[versions];
            None for a score.
        """
        from scipy import stats

        rows = len(np.unique(self.indices))
        count = len(np.unique(self.indices[failed]))
        interval = stats.binomtest(count, rows).proportion_ci(CONFIDENCE)  # exact
        # The worst version of each row, the worst row first.
        worst: dict[int, int] = {}
        for version in np.lexsort((-badness, ~failed)):
            if failed[version] or abs(change[version]) > _EQUAL:
                worst.setdefault(int(self.indices[version]), int(version))
        return Change(
            name=self.name,
            rows=rows,
            versions=len(self.versions),
            failed=count,
            interval=(float(interval.low), float(interval.high)),
            mean_change=float(np.mean(change)),
            shown=[
                self._show(version, None if shown is None else int(shown[version]))
                for version in itertools.islice(worst.values(), _SHOWN)
            ],
        )

    def _show(self, version: int, shown: int | None) -> ShownRow:
        kind, row = self.model.task.label_kind, self.indices[version]
        columns, texts = self.model.task.text_columns, self.rows.texts[row]
        facts: dict[str, Cell] = {"change": self.name}
        if self.rows.ids[row] != NO_ID:
            facts["id"] = str(self.rows.ids[row])
        outputs = np.array([self.before[version], self.after[version]])
        predicted = map(kind.describe, kind.predict(outputs, self.model.threshold))
        names = ("prediction", "prediction with the changed text")
        facts |= dict(zip(names, predicted, strict=True))
        if shown is not None:
            name = f"probability of {kind.names[shown]}"
            names = (name, f"{name} with the changed text")
            facts |= dict(zip(names, outputs[:, shown].tolist(), strict=True))
        compared = zip(columns, texts, self.versions[version], strict=True)
        return ShownRow(
            texts=dict(zip(columns, texts, strict=True)),
            facts=facts,
            changed={
                column: changed for column, text, changed in compared if changed != text
            },
        )


def predict_changes(
    model: Model,
    data: Data,
    perturbations: Iterable[tuple[str, Perturbation]],
    most: int,
) -> Iterator[ChangedRows]:
    """Predicts rows of the split that decides, and their versions, in one call.

    The rows are a sample of those that a perturbation changes, which is the same for
    any order of the rows. Rows with bytes that are not UTF-8 are left out.

    Args:
      model: The model.
      data: The data.
      perturbations: By name.
      most: The most versions of each perturbation; those of one row are not divided.

    Yields:
      The changed rows of each perturbation that changes a row.
    """
    rows = data.rows()
    valid = (index for index, row in enumerate(rows.texts) if _is_utf8(row))
    order = sampling.draw(
        valid, None, lambda index: "\0".join(rows.texts[index]).encode()
    )
    drawn = [
        (name, list(_draw(rows.texts, order, perturbation, data.task, most)))
        for name, perturbation in perturbations
    ]
    # A row of several perturbations is predicted once.
    positions: dict[Texts, int] = {}
    for _, versions in drawn:
        for index, version in versions:
            positions.setdefault(rows.texts[index], len(positions))
            positions.setdefault(version, len(positions))
    outputs = model.outputs(list(positions)) if positions else np.empty(0)
    for name, versions in drawn:
        if not versions:
            continue
        before = [positions[rows.texts[index]] for index, _ in versions]
        after = [positions[version] for _, version in versions]
        yield ChangedRows(
            name=name,
            model=model,
            rows=rows,
            indices=np.array([index for index, _ in versions], int),
            versions=[version for _, version in versions],
            before=outputs[before],
            after=outputs[after],
        )


def judge(
    changes: Sequence[Change],
    names: Iterable[str],
    describe: Callable[[Change], str],
    settings: CheckSettings,
    *,
    limit: str,
    most: float,
    columns: tuple[str, str],
    advice: str,
) -> CheckResult:
    """Returns the result of a check that limits the share of failed rows.

    Args:
      changes: Of each perturbation that changes a row.
      names: All perturbations.
      describe: Returns what a perturbation does, as a sentence.
      settings: The check's section.
      limit: The setting with the limit.
      most: The limit. A share is too large if its whole interval is above it.
      columns: Heads of the names and of the failed rows.
      advice: As in `CheckResult`.

    Raises:
      NotApplicable: No row is changed.
    """
    changed = {change.name for change in changes}
    unused = [name for name in names if name not in changed]
    not_used = f"no row is changed by {', '.join(unused)}"
    if not changes:
        raise NotApplicable(not_used)
    worst = max(changes, key=lambda change: change.failed / change.rows)
    excess = [change for change in changes if change.interval[0] > most]
    sentence = ", and ".join(map(describe, excess or [worst]))
    if excess:
        sentence += f", but {limit} allows {100 * most:g} %"
    elif len(changes) > 1:
        sentence += f", the largest of {len(changes)} shares"
    cells: list[list[Cell]] = [
        [
            change.name,
            change.rows,
            change.versions,
            change.failed,
            change.share,
            change.mean_change,
        ]
        for change in changes
    ]
    cells += [[name, 0, 0, 0, None, None] for name in unused]
    name, failed = columns
    heads = [name, "Rows", "Versions", failed, "Share", "Mean change"]
    return CheckResult(
        status=settings.failed if excess else "passed",
        sentence=f"{sentence}; {not_used}" if unused else sentence,
        advice=advice if excess else "",
        figures={"largest_share": worst.share},
        table=Table(columns=heads, rows=cells),
        rows=[row for change in changes for row in change.shown],
    )


def _is_utf8(texts: Texts) -> bool:
    return not any(re.search("[\ud800-\udfff]", text) for text in texts)


def _draw(
    texts: Sequence[Texts],
    order: Iterable[int],
    perturbation: Perturbation,
    task: TaskConfig,
    most: int,
) -> Iterator[tuple[int, Texts]]:
    """Yields versions of rows, each with the index of its row."""
    count = 0
    for index in order:
        versions = perturbation.versions(texts[index], task.text_columns)
        if count and count + len(versions) > most:
            break
        count += len(versions)
        yield from ((index, version) for version in versions)
