"""Predictions that change with texts although they should not."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from components.model_checks.changes import judge, predict_changes
from components.model_checks.check import Check, Data, Model, NotApplicable
from components.model_checks.perturbations import (
    Perturbation,
    PerturbationSettings,
    check_columns,
    name_perturbations,
)
from contracts.records.checks import CheckResult
from contracts.task.definition import TaskConfig


class Invariance(Check):
    """Changes texts in ways that should not change the prediction.

    These are the invariance tests of CheckList (Ribeiro et al., ACL 2020).
    """

    class Settings(PerturbationSettings):
        """Changes of texts that should not change the prediction.

        `[{typos: 1}, {append: " Thanks."}]` is short for a section with these
        `perturbations`.

        Attributes:
          max_changed: The share of the rows that a perturbation changes whose
            prediction may change: the class, any label, or the score by more than a
            tenth of the range. More is too much if the 95 % interval of the share is
            above this.
        """

        perturbations: list[Perturbation] = []
        max_changed: float = Field(default=0.05, ge=0, le=1)

    title = "Invariance"

    def run(self, model: Model, data: Data, settings: Settings) -> CheckResult:
        """Predicts rows that a perturbation changes again, with the changed texts."""
        if not settings.perturbations:
            raise NotApplicable("checks.invariance has no perturbation")
        named = name_perturbations(settings.perturbations)
        predicted = predict_changes(model, data, named.items(), settings.rows)
        return judge(
            [changed.compare() for changed in predicted],
            named,
            lambda change: (
                f"the prediction changes {change.in_rows} with {change.name}"
            ),
            settings,
            limit="checks.invariance.max_changed",
            most=settings.max_changed,
            columns=("Perturbation", "Rows changed"),
            advice="see the rows that change most in the report; add rows to train "
            "with such texts and the same labels, or raise the setting",
        )

    def validate(
        self, settings: Settings, task: TaskConfig, slice_columns: Sequence[str]
    ) -> None:
        """Refuses perturbations that cannot change the texts."""
        check_columns(settings.perturbations, task)
