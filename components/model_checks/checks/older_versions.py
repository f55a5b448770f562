"""Compares older pushed versions with the new model: how the model ages."""

from __future__ import annotations

import dataclasses
import datetime
import time
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from components.model_checks.check import (
    Check,
    Data,
    Model,
    NotApplicable,
    OlderVersion,
    Rows,
)
from contracts import metrics, wording
from contracts.records.checks import Cell, CheckResult, Status, Table
from contracts.records.evaluation import Estimate, PairedTest
from contracts.settings.checks import CheckSettings
from contracts.task.definition import TaskConfig

_SIGNIFICANCE = 0.05  # of the tests of older versions
_DAY = 86_400
_SHOWN_HASH = 8
_OTHER_SPLITTING = (
    "its data were split by other settings of data, or by an older release, so that it "
    "may have trained on the evaluated rows"
)
_ADVICE = (
    "check the data that were added since, and serve the older one with `rollback` if "
    "the new model was pushed"
)


class OlderVersionsCheck(Check):
    """Finds older versions that are better than the new model."""

    class Settings(CheckSettings):
        """Older pushed versions on the rows of a run, which show how the model ages.

        They are measured after the push, and decide nothing.

        Attributes:
          action: `warn` warns if an older version is better; `ignore` measures none.
          count: How many versions are measured, the newest first. 0 measures none.
          rows: Most rows of `evaluator.split` to predict with each of them; of more, a
            sample is predicted.
        """

        action: Literal["warn", "ignore"] = "warn"
        count: NonNegativeInt = 3
        rows: PositiveInt = 1000

    title = "Older versions"
    runs_after_push = True

    def run(self, model: Model, data: Data, settings: Settings) -> CheckResult:
        """Predicts rows with older versions, and tests whether they differ.

        The p-value of each test is multiplied by their number (Bonferroni).
        """
        versions = list(data.older_versions(settings.count))
        if not versions:
            raise NotApplicable("there is no older version")
        task, rows = data.task, data.rows(most=settings.rows)
        new = model.recorded(data.split).find(rows.ids)
        compared = [_compare(version, data, rows, new) for version in versions]
        tests = [version for version in compared if version.test]
        where = f"on {wording.count(len(rows), 'row')} of {data.split}"
        better, worse = (
            [
                f"{version.name} is {word}: {task.metric} is {version.test.a:.3f} "
                f"instead of {version.test.b:.3f} {where} (p = {p_value:.2g})"
                for version in tests
                if version.test
                and sign * version.test.difference > 0  # not for NaN
                and (p_value := min(1.0, len(tests) * version.test.p_value))
                < _SIGNIFICANCE
            ]
            for sign, word in ((-1, "better than the new model"), (1, "worse"))
        )
        if better:
            sentence = "newer data did not help: " + "; ".join(better)
        elif worse:
            sentence = f"{worse[0]}; the model ages, if the settings are the same"
        elif tests:
            sentence = (
                f"no sign of ageing: {task.metric} of {tests[-1].name} and of newer "
                f"versions differs from the new model's by what may be noise {where}; "
                "retraining may be unnecessary"
            )
        else:
            sentence = "; ".join(version.sentence for version in compared)
        columns = ["version", "pushed", "data", task.metric, "difference", "problem"]
        cells: list[list[Cell]] = [version.cells for version in compared]
        status: Status = settings.failed if better else "passed"
        if not any(version.measured for version in compared):
            status = "not applicable"
        elif new is not None:
            cells.insert(0, ["new", None, "", _estimate(task, new), None, ""])
        return CheckResult(
            status=status,
            sentence=sentence,
            advice=_ADVICE if better else "",
            figures={"rows": len(rows)},
            table=Table(columns=columns, rows=cells),
        )


@dataclasses.dataclass
class _Compared:
    """An older version, compared with the new model.

    Attributes:
      version: The version.
      problem: Why it was not measured; empty if it was.
      measured: The metric of the task; None if it was not measured.
      test: A test of it and the new model on the same rows; None if it was not
        measured, or if the rows have no unique ids.
    """

    version: OlderVersion
    problem: str = ""
    measured: Estimate | None = None
    test: PairedTest | None = None

    @property
    def data(self) -> str:
        """The data that it was trained on; empty if that is not recorded."""
        evaluation = self.version.evaluation
        if evaluation is None:
            return ""
        return f"{evaluation.data} ({evaluation.data_version[:_SHOWN_HASH]})"

    @property
    def name(self) -> str:
        """The version with its age and data."""
        age = "of unknown age"
        if self.version.pushed is not None:
            days = (time.time() - self.version.pushed) / _DAY
            old = wording.count(days, "day")
            age = f"{wording.count(24 * days, 'hour') if days < 2 else old} old"
        trained = f", trained on {self.data}" if self.data else ""
        return f"version {self.version.version} ({age}{trained})"

    @property
    def sentence(self) -> str:
        """What is known about it without a test."""
        if self.measured is None:
            return f"not compared with {self.name}: {self.problem}"
        return f"{self.name} has {self.measured.value:.4f}"

    @property
    def cells(self) -> list[Cell]:
        """Its row of the table."""
        pushed = None
        if self.version.pushed is not None:
            utc = datetime.timezone.utc
            moment = datetime.datetime.fromtimestamp(self.version.pushed, utc)
            pushed = moment.isoformat("T", "seconds")
        difference = self.test.estimate if self.test else None
        facts: list[Cell] = [self.version.version, pushed, self.data]
        return [*facts, self.measured, difference, self.problem]


def _compare(
    version: OlderVersion, data: Data, rows: Rows, new: metrics.Rows | None
) -> _Compared:
    """Compares a version with the new model's predictions; None without unique ids."""
    from modules.evaluation import resampling

    evaluation, splitting = version.evaluation, data.facts.splitting
    if version.model is None:
        return _Compared(version, version.problem)
    if splitting is not None and (
        evaluation is None or splitting != evaluation.splitting
    ):
        return _Compared(version, _OTHER_SPLITTING)
    try:
        outputs = version.model.outputs(rows)
    except RuntimeError as error:
        return _Compared(version, str(error))
    task, threshold = data.task, version.model.threshold
    old = metrics.Rows.of(rows.labels, outputs, threshold=threshold)
    test = None
    if new is not None:
        test = resampling.paired_test(task, old, new, task.metric)
    return _Compared(version, measured=_estimate(task, old), test=test)


def _estimate(task: TaskConfig, rows: metrics.Rows) -> Estimate:
    from modules.evaluation import resampling

    names = [task.metric]
    (value,) = metrics.compute(task.classes, rows, names).values()
    (interval,) = resampling.confidence_intervals(task, rows, names).values()
    return Estimate.of(value, interval)
