"""Probabilities and scores that move in the wrong direction with texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field, model_validator

from components.model_checks.changes import (
    Change,
    ChangedRows,
    judge,
    predict_changes,
)
from components.model_checks.check import Check, Data, Model, NotApplicable
from components.model_checks.perturbations import (
    Perturbation,
    PerturbationSettings,
    check_columns,
    name_perturbations,
)
from contracts.errors import SettingError
from contracts.records.checks import CheckResult
from contracts.task.definition import TaskConfig


class DirectedPerturbation(Perturbation):
    """A perturbation, and what it should do. One of `lowers` and `raises` is set.

    Attributes:
      lowers: The class or label whose probability may not rise, or `score`.
      raises: The class or label whose probability may not fall, or `score`.
    """

    lowers: str | None = None
    raises: str | None = None

    @property
    def description(self) -> str:
        """The change and its direction as recipes write them."""
        return f"{super().description}, {self.direction}: {self.output}"

    @property
    def direction(self) -> str:
        """`lowers` or `raises`."""
        return "raises" if self.lowers is None else "lowers"

    @property
    def output(self) -> str:
        """The class or label, or `score`."""
        return self.lowers or self.raises or ""

    @model_validator(mode="after")
    def _check_direction(self) -> DirectedPerturbation:
        if (self.lowers is None) == (self.raises is None):
            raise SettingError(
                got="has both or neither of lowers and raises",
                advice="add what the change lowers or raises: a class, label or score",
            )
        return self


class Direction(Check):
    """Changes texts in ways that should lower or raise an output.

    These are the directional expectation tests of CheckList (Ribeiro et al., ACL 2020).
    """

    class Settings(PerturbationSettings):
        """Changes of texts that should lower or raise a probability or the score.

        `[{append: " It was awful.", lowers: positive}]` is short for a section with
        these `perturbations`.

        Attributes:
          tolerance: How far a probability may move in the wrong direction, or a score
            as a share of the range. CheckList has 0.1.
          max_failed: The share of the rows that a perturbation changes that may move
            farther. More is too much if the 95 % interval of the share is above this.
        """

        perturbations: list[DirectedPerturbation] = []
        tolerance: float = Field(default=0.1, ge=0, le=1)
        max_failed: float = Field(default=0.05, ge=0, le=1)

    title = "Direction"

    def run(self, model: Model, data: Data, settings: Settings) -> CheckResult:
        """Predicts rows that a perturbation changes again, with the changed texts."""
        if not settings.perturbations:
            raise NotApplicable("checks.direction has no perturbation")
        named = name_perturbations(settings.perturbations)
        tolerance = settings.tolerance * (data.task.label_kind.score_range or 1)
        predicted = predict_changes(model, data, named.items(), settings.rows)

        def describe(change: Change) -> str:
            moves = "rises" if named[change.name].direction == "lowers" else "falls"
            name = named[change.name].output
            output = f"the probability of {name}" if data.task.classes else "the score"
            return (
                f"{output} {moves} by more than {tolerance:g} {change.in_rows} with "
                f"{change.name}"
            )

        return judge(
            [_measure(part, named[part.name], tolerance) for part in predicted],
            named,
            describe,
            settings,
            limit="checks.direction.max_failed",
            most=settings.max_failed,
            columns=("Expectation", "Rows failed"),
            advice="see the rows that change most in the report; add rows to train "
            "with such texts, or raise the setting",
        )

    def validate(
        self, settings: Settings, task: TaskConfig, slice_columns: Sequence[str]
    ) -> None:
        """Refuses unknown classes, and perturbations that cannot change the texts."""
        check_columns(settings.perturbations, task)
        allowed = _output_names(task)
        for index, part in enumerate(settings.perturbations):
            if part.output not in allowed:
                raise SettingError(
                    f"perturbations.{index}.{part.direction}",
                    repr(part.output),
                    ", ".join(allowed),
                )


def _output_names(task: TaskConfig) -> list[str]:
    """Returns the names of the model's outputs, in their order."""
    return [*task.label_kind.names] or ["score"]


def _measure(
    changed: ChangedRows, part: DirectedPerturbation, tolerance: float
) -> Change:
    """Measures how many outputs move in the wrong direction.

    Args:
      changed: The rows, and the outputs for their versions.
      part: The perturbation.
      tolerance: How far an output may move in the wrong direction.
    """
    names = _output_names(changed.model.task)
    index = names.index(part.output)
    shape = (len(changed.versions), len(names))
    change = (changed.after - changed.before).reshape(shape)[:, index]
    wrong = change if part.direction == "lowers" else -change
    shown = np.full(len(change), index) if changed.model.task.classes else None
    return changed.measure(wrong > tolerance, wrong, change, shown)
