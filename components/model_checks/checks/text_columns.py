"""Measures what each text column of a pair adds to the metrics, and what it costs."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import PositiveInt

from components.model_checks.check import (
    Check,
    Data,
    Model,
    NotApplicable,
    Rows,
    Texts,
)
from contracts import metrics, wording
from contracts.records.checks import Cell, CheckResult, Table
from contracts.records.evaluation import PairedTest
from contracts.settings.checks import CheckSettings

# A column without a benefit that costs this share of tokens or time is a warning.
_COSTLY_SHARE = 0.1
# Rows that are timed without each column: a call of a large model takes a second.
_TIMED_ROWS = 16
_ALL_TEXTS = "all texts"


class TextColumnsCheck(Check):
    """Finds columns that cost time and add nothing."""

    class Settings(CheckSettings):
        """The benefit and the cost of each text column of a pair.

        A column fails if no benefit was found, and it has a tenth of the tokens or
        takes a tenth of the time.

        Attributes:
          action: As in every check, but `warn` by default.
          rows: Most rows to predict with each column of another row; of more, a sample
            is predicted.
        """

        action: Literal["refuse", "warn", "ignore"] = "warn"
        rows: PositiveInt = 256

    title = "Text columns"

    def run(self, model: Model, data: Data, settings: Settings) -> CheckResult:
        """Predicts rows with each column of other rows, and times them without it.

        The benefit of a column is its permutation importance (Breiman 2001): what the
        metric loses if each row has the column of another row. Texts stay as the model
        knows them, which an empty text is not.
        """
        task = data.task
        if task.has_single_text:
            raise NotApplicable("there is one text column")
        if task.is_tokenized:
            raise NotApplicable("the rows are token ids")
        rows = data.rows(most=settings.rows)
        columns = list(_measure(model, data, rows))
        costly = [column.cost for column in columns if column.cost]
        benefits = ", ".join(f"{c.name} {c.test.difference:.3f}" for c in columns)
        count = wording.count(len(rows), "row")
        of_model = columns[0].test.b
        table: list[list[Cell]] = [
            ["none", of_model, None, sum(c.tokens for c in columns), None, None, None]
        ]
        return CheckResult(
            status=settings.failed if costly else "passed",
            sentence="; ".join(costly)
            or f"what each column adds to {task.metric}: {benefits} ({count})",
            advice="leave the column out, or raise checks.text_columns.rows for a "
            "narrower interval"
            if costly
            else "",
            figures={"rows": len(rows)},
            table=Table(
                columns=[
                    "column of other rows",
                    task.metric,
                    "benefit",
                    "tokens",
                    "share of tokens (%)",
                    "share of time (%)",
                    "rows cut",
                ],
                rows=table + [column.cells for column in columns],
            ),
        )


@dataclasses.dataclass(frozen=True)
class _Column:
    """A text column: what it adds to the metric, and what it costs.

    Attributes:
      test: The metric with this column of other rows, and of the rows: the difference
        is the benefit of the column.
      tokens: Mean tokens of the column that the model reads.
      token_share: Their share of those of all columns.
      time_share: What a request with one row takes less if the column is empty, as a
        share.
      cut_rows: Rows in which truncation cut the column.
    """

    name: str
    test: PairedTest
    tokens: float
    token_share: float
    time_share: float
    cut_rows: int

    @property
    def cost(self) -> str:
        """Why the column is too costly; empty if it is not."""
        is_beneficial = self.test.difference > 0 and not self.test.may_be_noise
        if is_beneficial or max(self.token_share, self.time_share) < _COSTLY_SHARE:
            return ""
        time = (
            f" and {100 * self.time_share:.1f} % of the time" if self.time_share else ""
        )
        return (
            f"{self.name}: no benefit was found on "
            f"{wording.count(self.test.rows, 'row')}, but it has "
            f"{100 * self.token_share:.1f} % of the tokens{time}"
        )

    @property
    def cells(self) -> list[Cell]:
        """Its row of the table."""
        shares = (100 * self.token_share, 100 * self.time_share)
        return [
            *(self.name, self.test.a, self.test.estimate, self.tokens),
            *(*shares, self.cut_rows),
        ]


def _measure(model: Model, data: Data, rows: Rows) -> Iterator[_Column]:
    from modules.evaluation import resampling

    task, texts = data.task, rows.texts
    read, cut = model.tokens(texts)
    tokens = read.sum(axis=0)
    timed = {_ALL_TEXTS: (model, texts[:_TIMED_ROWS])}
    for index, name in enumerate(task.text_columns):
        emptied = [_replace(row, index, "") for row in texts[:_TIMED_ROWS]]
        timed[f"without {name}"] = (model, emptied)
    times = data.time_in_turn(timed)
    medians = {key: float(np.median(seconds)) for key, seconds in times.items()}
    whole = model.recorded(data.split).find(rows.ids)
    if whole is None:  # the rows have no unique ids
        whole = _predict(model, rows, texts)
    for index, name in enumerate(task.text_columns):
        permuted = _predict(model, rows, _permute(texts, index))
        yield _Column(
            name=name,
            test=resampling.paired_test(task, permuted, whole, task.metric),
            tokens=float(tokens[index]) / len(rows),
            token_share=float(tokens[index]) / max(float(tokens.sum()), 1.0),
            time_share=max(0.0, 1 - medians[f"without {name}"] / medians[_ALL_TEXTS]),
            cut_rows=int(np.count_nonzero(cut[:, index])),
        )


def _predict(model: Model, rows: Rows, texts: list[Texts]) -> metrics.Rows:
    outputs = model.outputs(texts)
    return metrics.Rows.of(rows.labels, outputs, threshold=model.threshold)


def _permute(texts: list[Texts], column: int) -> list[Texts]:
    """Returns the rows, each with the text of a column of another row.

    The order is random, and always the same. No row keeps its text, if there are two.
    """
    order = random.Random(0).sample(range(len(texts)), len(texts))
    permuted = list(texts)
    for index, other in zip(order, order[1:] + order[:1], strict=True):
        permuted[index] = _replace(texts[index], column, texts[other][column])
    return permuted


def _replace(texts: Texts, column: int, text: str) -> Texts:
    return (*texts[:column], text, *texts[column + 1 :])
