"""Required rows: texts that the model must predict right, from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from components.model_checks.check import (
    Check,
    Data,
    Model,
    NotApplicable,
    Prediction,
    Texts,
)
from contracts import wording
from contracts.errors import SettingError
from contracts.records.checks import CheckResult, ShownRow, Table
from contracts.records.labelled_rows import LabelledRow, read_rows
from contracts.settings.checks import CheckSettings, LabelledRows
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from contracts.task.label_kind import LabelKind

if TYPE_CHECKING:
    from modules.data.judgment import Finding
    from modules.data.slice_sizes import Counts

IN_TRAIN = "required rows in train"  # kind of a finding
_NO_GROUP = "(none)"


class RequiredRows(Check):
    """Predicts the rows of a file, and shows those that the model misses."""

    class Settings(CheckSettings):
        """Rows that the model must predict right.

        Attributes:
          file: A file with the texts in the text columns and the label in the label
            column, in any format that `data.source` may have. A score has its lowest
            and highest value in the columns `lowest` and `highest` instead. The columns
            `group` and `why` are optional: the report has the share of each group, and
            why a missed row has its label. None requires no rows.
          least: Lowest share of the rows that must be predicted right.
        """

        file: LabelledRows | None = None
        least: float = Field(default=1.0, ge=0, le=1)

    title = "Required rows"

    def validate(
        self,
        settings: Settings,
        task: TaskConfig,
        slice_columns: Sequence[str],
    ) -> None:
        """Refuses a file for a tokenized task."""
        if settings.file and task.is_tokenized:
            raise SettingError(
                "file",
                "it has texts, but task.input is tokenized",
                advice="leave it out",
            )

    def run(self, model: Model, data: Data, settings: Settings) -> CheckResult:
        """Refuses a model that predicts too few rows right."""
        if settings.file is None:
            raise NotApplicable("checks.required_rows.file names no file")
        rows, kind = read_rows(settings.file), data.task.label_kind
        texts = [_texts(row) for row in rows]
        predicted, champion = model.predict(texts), data.champion
        is_right, problem = _judge(rows, predicted, kind), ""
        was_right: list[bool] | list[None] = [None] * len(rows)
        if champion is not None:
            try:
                was_right = _judge(rows, champion.predict(texts), kind)
            except RuntimeError as error:  # not the candidate's fault
                problem = f"; not compared with the champion: {error}"
        share = sum(is_right) / len(rows)
        is_enough = share >= settings.least
        missed = [
            _show(row, prediction, was, kind)
            for row, prediction, is_ok, was in zip(
                rows, predicted, is_right, was_right, strict=True
            )
            if not is_ok
        ]
        sentence = (
            f"{sum(is_right)} of {wording.count(len(rows), 'required row')} "
            f"{'is' if sum(is_right) == 1 else 'are'} predicted right"
        )
        if not is_enough:
            sentence += f", and least is {settings.least:g}"
        return CheckResult(
            status="passed" if is_enough else settings.failed,
            sentence=sentence + problem,
            advice=""
            if is_enough
            else "see the missed rows in the report; add training rows like them, or "
            "correct the file",
            figures={"rows": len(rows), "right": sum(is_right), "share": share},
            table=_group(rows, is_right),
            rows=missed,
        )

    def texts_to_find(self, settings: Settings) -> list[Texts]:
        """Returns the texts of the rows: those in `train` test nothing."""
        return (
            [_texts(row) for row in read_rows(settings.file)] if settings.file else []
        )

    def judge_data(
        self,
        settings: Settings,
        task: TaskConfig,
        split: str,
        slices: Mapping[str, Counts],
        in_train: list[Texts],
    ) -> Iterator[Finding]:
        """Warns of rows that are also in `train`."""
        # Imported here, because each command imports the settings above.
        from modules.data.judgment import SHOWN, Finding

        if not in_train:
            return
        # The model card has this message, and may not have texts.
        found = {*in_train}
        numbers = [
            str(number)
            for number, texts in enumerate(self.texts_to_find(settings), start=1)
            if texts in found
        ]
        more = len(numbers) - SHOWN
        message = (
            f"{TRAIN_SPLIT}: it has {wording.count(len(numbers), 'row')} of "
            f"checks.required_rows.file, which test nothing there: number "
            f"{', '.join(numbers[:SHOWN])}{f' and {more} more' if more > 0 else ''} of "
            f"the file; remove them from {TRAIN_SPLIT}, or write other texts"
        )
        yield Finding(IN_TRAIN, TRAIN_SPLIT, message, count=len(numbers))


def _texts(row: LabelledRow) -> Texts:
    return tuple(row.texts.values())


def _judge(
    rows: list[LabelledRow], predicted: list[Prediction], kind: LabelKind
) -> list[bool]:
    """Returns which rows are predicted right."""
    return [
        row.accepts(prediction.label, kind)
        for row, prediction in zip(rows, predicted, strict=True)
    ]


def _group(rows: list[LabelledRow], is_right: list[bool]) -> Table | None:
    """Returns the share of each group; None if no row has one."""
    groups: dict[str, list[bool]] = {}
    for row, is_ok in zip(rows, is_right, strict=True):
        groups.setdefault(row.group or _NO_GROUP, []).append(is_ok)
    if [*groups] == [_NO_GROUP]:
        return None
    cells: list[list[Any]] = [
        [name, len(values), sum(values), sum(values) / len(values)]
        for name, values in groups.items()
    ]
    return Table(columns=["group", "rows", "right", "share"], rows=cells)


def _show(
    row: LabelledRow, prediction: Prediction, was_right: bool | None, kind: LabelKind
) -> ShownRow:
    facts = {
        "label": row.describe(kind),
        "prediction": prediction.label,
        **{f"P({name})": value for name, value in prediction.probabilities.items()},
        "group": row.group or None,
        "why": row.why or None,
    }
    if was_right is not None:
        facts["champion"] = "right" if was_right else "wrong"
    return ShownRow(texts=row.texts, facts=facts)
