"""The predictions of a loaded model, whatever kind of model it is."""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from contracts.errors import UsageError
from contracts.task import abstention
from contracts.versions.exported_model import (
    CLASS,
    CLASS_ID,
    LABELS,
    PROBABILITIES,
    SCORE,
)

# Columns of predicted rows.
PREDICTION = "prediction"
PROBABILITY = "probability"

_ROWS_AT_A_TIME = 256
_DECIMALS = 6  # of the numbers in files


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The prediction of one row.

    Attributes:
      value: The name of the predicted class, the names of several labels, or the score
        of a regression. None if the class is less probable than required.
      probability: The class's probability; None for labels and for a score.
      probabilities: That of each of several labels; empty for a class or a score.
    """

    value: str | float | list[str] | None
    probability: float | None = None
    probabilities: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def as_columns(self) -> dict[str, Any]:
        """Returns the columns that are added to the row."""
        if isinstance(self.value, float):
            return {PREDICTION: round(self.value, _DECIMALS)}
        if self.probability is None:
            return {PREDICTION: self.value} | {
                f"{PROBABILITY}_{name}": round(share, _DECIMALS)
                for name, share in self.probabilities.items()
            }
        return {
            PREDICTION: self.value,
            PROBABILITY: round(self.probability, _DECIMALS),
        }


def example_columns(
    *, is_score: bool, labels: tuple[str, ...] | None
) -> dict[str, Any]:
    """Returns the columns of a prediction, with any value of their types.

    Args:
      is_score: Whether the model predicts a score instead of a class.
      labels: The names of several labels; None for any other.
    """
    if labels:
        shares = dict.fromkeys(labels, 0.0)
        return Prediction([""], probabilities=shares).as_columns()
    return (Prediction(0.0) if is_score else Prediction("", 0.0)).as_columns()


def rename_taken(names: Collection[str], predicted: Iterable[str]) -> dict[str, str]:
    """Returns new names for columns of the input that have the name of a prediction's.

    Returns:
      The new name, `input_prediction` for `prediction`, by the old one. `input_` is put
      before it again if the input has such a column too.
    """
    renamed: dict[str, str] = {}
    for name in predicted:
        if name in names:
            new = f"input_{name}"
            while new in names:
                new = f"input_{new}"
            renamed[name] = new
    return renamed


def add_columns(row: Mapping[str, Any], predicted: dict[str, Any]) -> dict[str, Any]:
    """Returns a row, with columns as by `rename_taken`, and its prediction."""
    names = rename_taken(row.keys(), predicted)
    return {names.get(name, name): value for name, value in row.items()} | predicted


def check_min_probability(
    min_probability: float | None, *, is_score: bool, labels: tuple[str, ...] | None
) -> None:
    """Raises a UsageError for a least probability if the model predicts no class."""
    if min_probability is None or not (is_score or labels):
        return
    predicted = (
        "a score, which has no probability"
        if is_score
        else "any number of labels, each by its threshold"
    )
    raise UsageError(
        "min_probability",
        f"{min_probability:g}; the model predicts {predicted}",
        advice="leave `min_probability` out",
        name="E-options-conflict",
    )


class Predictor(abc.ABC):
    """A loaded model of any kind.

    Args:
      columns: Its text columns, in the order of the task.
      is_score: Whether it predicts a score instead of a class.
      labels: The names of several labels, in their order; None for any other.
      min_probability: A class that is less probable is not predicted; None predicts
        every row.

    Attributes:
      columns: See above.
      is_score: See above.
      labels: See above.

    Raises:
      UsageError: There is a least probability, and the model predicts no class.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        is_score: bool,
        labels: tuple[str, ...] | None,
        min_probability: float | None,
    ) -> None:
        check_min_probability(min_probability, is_score=is_score, labels=labels)
        self.columns = list(columns)
        self.is_score = is_score
        self.labels = labels
        self._min_probability = min_probability

    @abc.abstractmethod
    def outputs(self, texts: Mapping[str, Sequence[str]]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `serving_default` by name.

        Args:
          texts: The texts of the rows by column.
        """

    def predict(self, rows: Iterable[tuple[str, ...]]) -> Iterator[Prediction]:
        """Predicts texts in the order of the task's columns.

        Raises:
          UsageError: The model takes a different number of texts.
        """
        for batch in split_batches(rows):
            for texts in batch:
                if len(texts) != len(self.columns):
                    is_pair = len(texts) == 2
                    raise UsageError(
                        "pair" if is_pair else "text",
                        f"the model takes {'single texts' if is_pair else 'pairs'} "
                        f"({' and '.join(self.columns)})",
                        advice=f"give `{'text' if is_pair else 'pair'}` instead",
                        name="E-options-conflict",
                    )
            yield from self.predict_batch(batch, self.columns)

    def predict_batch(
        self, batch: Sequence[tuple[str, ...]], columns: Sequence[str]
    ) -> list[Prediction]:
        """Predicts texts in one call of the signature `serving_default`.

        Args:
          batch: Texts in the order of the columns.
          columns: The model's text columns in any order.
        """
        columns_of_texts = zip(*batch, strict=True)
        return self.to_predictions(
            self.outputs(dict(zip(columns, columns_of_texts, strict=True)))
        )

    def to_predictions(self, outputs: Mapping[str, np.ndarray]) -> list[Prediction]:
        """Returns the prediction of each row of a model's outputs."""
        if self.is_score:
            return [Prediction(float(score)) for score in outputs[SCORE]]
        if self.labels:
            columns = (outputs[name] for name in (LABELS, PROBABILITIES))
            return [
                Prediction(
                    list(itertools.compress(self.labels, is_set)),
                    probabilities=dict(zip(self.labels, shares.tolist(), strict=True)),
                )
                for is_set, shares in zip(*columns, strict=True)
            ]
        # A model with a threshold may predict the less probable class of two.
        names, class_ids, probabilities = (
            outputs[name] for name in (CLASS, CLASS_ID, PROBABILITIES)
        )
        is_abstained = [False] * len(names)
        if self._min_probability is not None:
            is_abstained = abstention.abstains(
                probabilities, class_ids, self._min_probability
            ).tolist()
        return [
            Prediction(None if is_without else name.decode(), float(row[class_id]))
            for name, class_id, row, is_without in zip(
                names, class_ids, probabilities, is_abstained, strict=True
            )
        ]


def split_batches(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """Yields rows in batches of one size; the last may be smaller."""
    iterator = iter(rows)
    while batch := list(itertools.islice(iterator, _ROWS_AT_A_TIME)):
        yield batch
