"""The rows that a check sends: real ones, with what was predicted of them."""

from __future__ import annotations

import base64
import collections
import csv
import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tfx import v1 as tfx

from components.serving_check.check import SignatureRequest

# Of a row that has none.
NO_ID = -1

# What a model gets that was trained on token ids, where no text is at hand: a common
# sentence, nothing, other scripts, and more than fits.
FIXED_TEXTS = (
    "The cat sees the tree, and the dog does not.",
    "",
    "Ünïcödé ☃ 漢字 \N{GRINNING FACE}",
    "word " * 2000,
)


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The file with what the model said in training.

    Attributes:
      file: TSV with a header, relative to the `ModelRun`.
      id_column: Its column, and the Examples' feature (int64), that names a row.
      columns: Those with the values of the output: the probability of each class, or
        the single column of a score.
      output: The signatures' output with the same values.
    """

    file: str
    id_column: str
    columns: list[str]
    output: str


@dataclasses.dataclass(frozen=True)
class Interface:
    """How a model is asked.

    Attributes:
      text_columns: Inputs of the text signature, features of the Examples.
      text_signature: Takes raw text, string[batch] a column.
      examples_signature: Takes serialized `tf.Example`s, string[batch].
      examples_input: Its input.
      has_text: Whether the Examples hold the text. If not, fixed strings are sent in
        its place, which must be answered and are not compared.
      predictions: What the answers are compared with.
    """

    text_columns: list[str]
    text_signature: str
    examples_signature: str
    examples_input: str
    has_text: bool
    predictions: Predictions

    @classmethod
    def from_json(cls, text: str) -> Interface:
        """Reads the parameter `request` of the component.

        Args:
          text: A JSON object with the attributes.

        Raises:
          ValueError: Its keys are others.
        """
        content = json.loads(text)
        _check_keys("request", content, cls)
        _check_keys("request.predictions", content["predictions"], Predictions)
        predictions = Predictions(**content.pop("predictions"))
        return cls(predictions=predictions, **content)


def _check_keys(name: str, content: dict[str, Any], kind: type) -> None:
    wanted = {field.name for field in dataclasses.fields(kind)}
    if set(content) != wanted:
        raise ValueError(
            f"{name} has the keys {sorted(content)}, but must have {sorted(wanted)}"
        )


def read_predictions(path: str, predictions: Predictions) -> dict[int, Any]:
    """Reads what was predicted, by row id: a list of floats, or a float.

    Args:
      path: The file, local or remote.
      predictions: Names its columns.

    Raises:
      ValueError: A column is missing.
    """
    with tfx.dsl.io.fileio.open(path) as file:
        reader = csv.DictReader(file, delimiter="\t")
        wanted = [predictions.id_column, *predictions.columns]
        missing = [name for name in wanted if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(
                f"{path} has the columns {reader.fieldnames}, but not {missing}, which "
                "request.predictions names"
            )
        found = collections.defaultdict(list)
        for row in reader:
            values = [float(row[name]) for name in predictions.columns]
            found[int(row[predictions.id_column])].append(
                values[0] if len(values) == 1 else values
            )
    # A name that two rows share tells nothing of either.
    return {name: rows[0] for name, rows in found.items() if len(rows) == 1}


def build_signatures(
    pattern: str, expected: dict[int, Any], interface: Interface, count: int
) -> tuple[list[int], list[SignatureRequest]]:
    """Takes rows and makes of them what is sent.

    Args:
      pattern: Files of a split, TFRecords of `tf.Example`s, gzipped.
      expected: What was predicted, by row id; empty where rows have no ids of their
        own, whose answers must then be finite and are compared with nothing.
      interface: How the model is asked.
      count: How many rows to take: the first that something was predicted of.

    Returns:
      The ids of the rows that are compared, and the requests to the text and to the
      Examples signature.

    Raises:
      ValueError: No row was predicted, or one has no text.
    """
    id_column = interface.predictions.id_column
    rows = list(itertools.islice(_find(pattern, expected, id_column), count))
    if not rows:
        raise ValueError(
            f"none of the rows in {pattern} has an {id_column!r} that "
            f"{interface.predictions.file} has: are both of the same split?"
        )
    ids = [row for row, _ in rows if row in expected]
    values = [expected[row] for row in ids] or None
    # A score is a number a row; of classes there are two or more.
    classes = len(interface.predictions.columns)
    shape: dict[str, Any] = {
        "output": interface.predictions.output,
        "width": None if classes == 1 else classes,
    }
    text = SignatureRequest(
        name=interface.text_signature,
        inputs=_list_texts(rows, interface),
        expected=values if interface.has_text else None,
        timed=interface.has_text,
        **shape,
    )
    serialized = (example.SerializeToString() for _, example in rows)
    encoded = [{"b64": base64.b64encode(record).decode()} for record in serialized]
    examples = SignatureRequest(
        name=interface.examples_signature,
        inputs={interface.examples_input: encoded},
        expected=values,
        timed=not interface.has_text,
        **shape,
    )
    return ids, [text, examples]


def _list_texts(
    rows: list[tuple[int, tf.train.Example]], interface: Interface
) -> dict[str, list[str]]:
    if not interface.has_text:
        return {
            column: [*FIXED_TEXTS[index:], *FIXED_TEXTS[:index]]
            for index, column in enumerate(interface.text_columns)
        }
    return {
        column: [_read_text(example, column, row) for row, example in rows]
        for column in interface.text_columns
    }


def _find(
    pattern: str, expected: dict[int, Any], id_column: str
) -> Iterator[tuple[int, tf.train.Example]]:
    files = sorted(tfx.dsl.io.fileio.glob(pattern))
    for record in tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator():
        example = tf.train.Example.FromString(record)
        ids = example.features.feature[id_column].int64_list.value
        row = ids[0] if ids else NO_ID
        if row in expected or not expected:
            yield row, example


def _read_text(example: tf.train.Example, column: str, row: int) -> str:
    values = example.features.feature[column].bytes_list.value
    if len(values) != 1:
        raise ValueError(
            f"row {row} has {len(values)} texts in {column!r}, which "
            "request.text_columns names; it must have one"
        )
    # What is no UTF-8 must reach the model as it is.
    return values[0].decode("utf-8", "surrogateescape")
