"""Loads a model and predicts with it."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from contracts.errors import UsageError
from contracts.storage import uris
from contracts.versions import exported_model, served_versions
from contracts.versions.exported_model import (
    CLASS,
    CLASS_ID,
    LABELS,
    PROBABILITIES,
    SCORE,
    SERVE_EXAMPLES,
    SERVING_DEFAULT,
)
from modules.evaluation import abstention

logger = logging.getLogger(__name__)

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


def not_pushed(directory: str, absent: str) -> UsageError:
    """Returns the error of a SavedModel that this pipeline did not push."""
    return UsageError(
        "model",
        f"{directory} has no {absent}",
        advice="give a model that this pipeline pushed",
        name="E-model-not-found",
    )


def read_description(directory: str) -> dict[str, Any]:
    """Reads the description of a SavedModel, as `write_description` writes it.

    Raises:
      UsageError: The model has none.
    """
    described = exported_model.read_description(directory)
    if described is None:
        raise not_pushed(directory, exported_model.DESCRIPTION_FILE)
    return described


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


def find_model(directory: str) -> str:
    """Returns the directory of a SavedModel, or of the newest of its versions.

    The contents of its files are compared with the version's manifest.

    Args:
      directory: Local, or remote (`gs://`).

    Raises:
      UsageError: There is no complete SavedModel, it cannot be read, a file differs
        from what was pushed, or TensorFlow would read its path as a file pattern.
    """
    uris.refuse_pattern("model", directory)
    try:
        if served_versions.is_model(directory):
            if problem := served_versions.find_problem(directory):
                raise served_versions.VersionError(
                    directory,
                    f"incomplete: {problem}",
                    advice="give another version",
                    name="E-model-damaged",
                )
            return _verify(directory)
        for version in served_versions.list_complete(directory):
            return _verify(uris.join(directory, version))
        served_versions.refuse_other_kind(directory, served_versions.GRAPH_FILE)
    except OSError as error:
        raise UsageError(
            "model",
            f"{error.filename} cannot be read: {error.strerror}",
            advice="make it readable",
            name="E-storage-failed",
        ) from error
    raise UsageError(
        "model",
        f"{directory} has no SavedModel",
        advice="give the directory after `pushed` in the last line of the output of "
        "`run`",
        name="E-model-not-found",
    )


def _verify(version: str) -> str:
    """Returns a version whose files are those that were pushed."""
    if unchecked := served_versions.verify(version):
        logger.warning("%s", unchecked)
    return version


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


class Predictor:
    """A loaded SavedModel.

    Args:
      directory: The SavedModel.
      min_probability: A class that is less probable is not predicted; None predicts
        every row.

    Attributes:
      columns: Its text columns, in the order of the task.
      signatures: Its signatures by name.
      is_score: Whether it predicts a score instead of a class.
      labels: The names of several labels, in their order; None for any other.

    Raises:
      UsageError: There is a least probability, and the model predicts no class. Or the
        names of its labels are missing.
    """

    def __init__(self, directory: str, min_probability: float | None = None) -> None:
        import tensorflow as tf  # takes seconds; the settings are checked before
        import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

        self._tf = tf
        self._model = tf.saved_model.load(directory)
        self.signatures = self._model.signatures
        # A signature sorts its arguments by name; `text_columns` has the task's order.
        self.columns = [name.decode() for name in self._model.text_columns().numpy()]
        outputs = self.signatures[SERVING_DEFAULT].structured_outputs
        self.is_score = SCORE in outputs
        self.labels = None
        if LABELS in outputs:
            self.labels = tuple(read_description(directory)["classes"])
        check_min_probability(
            min_probability, is_score=self.is_score, labels=self.labels
        )
        self._min_probability = min_probability

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
        values = zip(columns, zip(*batch, strict=True), strict=True)
        inputs = {name: self._tf.constant(texts) for name, texts in values}
        return self._to_predictions(self.signatures[SERVING_DEFAULT](**inputs))

    def predict_examples(self, batch: Sequence[bytes]) -> list[Prediction]:
        """Predicts serialized `tf.Example`s in one call of `serve_examples`."""
        examples = self._tf.constant(batch)
        return self._to_predictions(self.signatures[SERVE_EXAMPLES](examples=examples))

    def _to_predictions(self, outputs: dict[str, Any]) -> list[Prediction]:
        if self.is_score:
            return [Prediction(float(score)) for score in outputs[SCORE].numpy()]
        if self.labels:
            columns = (outputs[name].numpy() for name in (LABELS, PROBABILITIES))
            return [
                Prediction(
                    list(itertools.compress(self.labels, is_set)),
                    probabilities=dict(zip(self.labels, shares.tolist(), strict=True)),
                )
                for is_set, shares in zip(*columns, strict=True)
            ]
        # A model with a threshold may predict the less probable class of two.
        names, class_ids, probabilities = (
            outputs[name].numpy() for name in (CLASS, CLASS_ID, PROBABILITIES)
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
