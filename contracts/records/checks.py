"""The results of the checks of a model: written by ModelChecks, shown anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import pydantic

from contracts.errors import named
from contracts.records import Record, RecordFile
from contracts.records.evaluation import Estimate, Number
from contracts.run_states import Mark

Status = Literal["passed", "warning", "refused", "not applicable"]

# How a status is shown, in the order in which results are shown.
STATUS_MARKS: dict[Status, Mark] = {
    "refused": Mark("✕", "red"),
    "warning": Mark("⚠", "yellow"),
    "passed": Mark("✓", "green"),
    "not applicable": Mark("·", "dim"),
}


def _restore(value: Any) -> Any:
    """Returns a number that JSON does not have; see `Number`."""
    return float(value) if value in ("nan", "inf", "-inf") else value


# A cell of a table. An estimate is drawn with its interval.
Cell = Annotated[Estimate | Number | str | None, pydantic.BeforeValidator(_restore)]


class Table(Record):
    """A table of a result.

    Attributes:
      columns: The heads.
      rows: The cells of each row.
    """

    columns: list[str]
    rows: list[list[Cell]]

    @pydantic.model_validator(mode="after")
    def _check_widths(self) -> Table:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row has {len(row)} cells, not {len(self.columns)}")
        return self


class ShownRow(Record):
    """A row of the data, or of a check's own file, that a report shows.

    Attributes:
      texts: The texts by column.
      facts: What is shown about it by name, such as its label and its prediction.
      changed: The texts that a check has changed, by column.
    """

    texts: dict[str, str]
    facts: dict[str, Cell] = {}
    changed: dict[str, str] = {}

    @property
    def shown_facts(self) -> dict[str, Cell]:
        """The changed texts, and the facts."""
        is_single = len(self.texts) == 1
        changed: dict[str, Cell] = {
            f"changed {'text' if is_single else column}": text
            for column, text in self.changed.items()
        }
        return changed | self.facts


class CheckResult(Record):
    """The result of a check.

    Attributes:
      status: A model with a `refused` check is not pushed.
      sentence: What was found, without a period at its end.
      advice: What to do about a warning or a refusal, as an imperative.
      figures: Measurements by name, with the unit in the name.
      table: More measurements; None without a table.
      rows: Rows to show in the report and by `check`. Records leave them out: they
        hold data.
      error: The stable name of a warning or a refusal.
      name: The check's name in the recipe. This and the others are set by ModelChecks.
      title: The check's name for people.
      seconds: Time of the check.
    """

    status: Status
    sentence: str
    advice: str = ""
    figures: dict[str, Cell] = {}
    table: Table | None = None
    rows: list[ShownRow] = []
    error: str = "E-check-failed"
    name: str = ""
    title: str = ""
    seconds: float = 0.0

    @property
    def message(self) -> str:
        """The sentence; of a warning or a refusal with advice and stable name."""
        if self.status in ("passed", "not applicable"):
            return self.sentence
        text = "; ".join(filter(None, [self.sentence, self.advice]))
        return named(f"{text} (checks.{self.name})", self.error)


class ChecksReport(RecordFile):
    """The results of all checks, in the order of their names."""

    FILE = "checks.json"

    results: list[CheckResult] = []

    @property
    def refusals(self) -> list[str]:
        """Why the model is refused; empty if it is not."""
        return self._messages("refused")

    @property
    def warnings(self) -> list[str]:
        """What the model is not refused for."""
        return self._messages("warning")

    def _messages(self, status: Status) -> list[str]:
        return [result.message for result in self.results if result.status == status]


def sort_results(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Returns results as they are shown: refusals first, then warnings."""
    return sorted(results, key=lambda result: list(STATUS_MARKS).index(result.status))
