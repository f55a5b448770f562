"""Predictions that change if words for groups of people are swapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, PositiveInt, field_validator

from components.model_checks.changes import judge, predict_changes
from components.model_checks.check import Check, Data, Model, NotApplicable
from components.model_checks.perturbations import Perturbation
from components.model_checks.word_swaps import (
    WordList,
    check_list,
    read_english_lists,
)
from contracts.errors import SettingError
from contracts.records.checks import CheckResult
from contracts.settings.checks import CheckSettings
from contracts.task.definition import TaskConfig


class SwappedWords(Check):
    """Swaps words for groups of people in evaluated texts."""

    class Settings(CheckSettings):
        """Words for groups of people are swapped in evaluated texts.

        Attributes:
          lists: The words by the name of a list, such as
            `{age: [[young, old], [boy, man]]}`: a column has the words for a group, a
            row those that replace each other. None takes the English lists of
            `components/model_checks/group_words.json`, `{}` swaps none.
          max_changed: The share of the rows with such a word whose prediction may
            change. More is too much if the 95 % interval of the share is above this.
          rows: The most versions of rows with words of each list. Of more, a sample is
            predicted, which is the same for any order of the rows.
        """

        action: Literal["refuse", "warn", "ignore"] = "warn"
        lists: dict[str, WordList] | None = None
        max_changed: float = Field(default=0.05, ge=0, le=1)
        rows: PositiveInt = 256

        @field_validator("lists")
        @classmethod
        def _check_lists(
            cls, lists: dict[str, WordList] | None
        ) -> dict[str, WordList] | None:
            for name, rows in (lists or {}).items():
                try:
                    check_list(rows)
                except SettingError as error:
                    raise SettingError(
                        got=f"{name}: {error.got}", advice=error.advice
                    ) from error
            return lists

    title = "Swapped words"

    def run(self, model: Model, data: Data, settings: Settings) -> CheckResult:
        """Predicts rows with such words again, with the words of the other groups."""
        lists = settings.lists
        if lists is None:
            lists = read_english_lists()
        if data.task.is_tokenized:
            raise NotApplicable(
                "words are not swapped: the rows have token ids and no texts"
            )
        if not lists:
            raise NotApplicable(
                "words are not swapped: checks.swapped_words.lists has no list"
            )
        perturbations = (
            (name, Perturbation(swap_words=rows)) for name, rows in lists.items()
        )
        predicted = predict_changes(model, data, perturbations, settings.rows)
        changes = [changed.compare() for changed in predicted]
        if not changes:
            raise NotApplicable(
                "words are not swapped: no row has one of checks.swapped_words.lists "
                f"({', '.join(lists)})"
            )
        return judge(
            changes,
            [change.name for change in changes],
            lambda change: (
                f"the prediction changes {change.in_rows} if words of "
                f"checks.swapped_words.lists.{change.name} are swapped"
            ),
            settings,
            limit="checks.swapped_words.max_changed",
            most=settings.max_changed,
            columns=("Words", "Rows changed"),
            advice="see the rows that change most in the report; add rows to train "
            "whose label does not depend on these words, or raise the setting if it "
            "may",
        )

    def validate(
        self, settings: Settings, task: TaskConfig, slice_columns: Sequence[str]
    ) -> None:
        """Refuses a refusal that cannot happen."""
        if settings.action == "refuse" and (task.is_tokenized or settings.lists == {}):
            raise SettingError(
                "action",
                "refuse, but no words are swapped: task.input is tokenized, or "
                "checks.swapped_words.lists has no list",
                advice="set it to warn, or give texts and lists",
            )
