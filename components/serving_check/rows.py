"""Builds the request of a check from real rows and the Trainer's predictions."""

from __future__ import annotations

import base64
import collections
import csv
import heapq
import itertools
import random
from collections.abc import Collection, Iterator
from typing import Any

import tensorflow as tf
from tfx import v1 as tfx

from components.examples import read_id, read_values
from components.serving_check import swapped_words
from components.serving_check.permuted_columns import permute
from components.serving_check.request import (
    TOLERANCES,
    Limits,
    Predictions,
    ServingCheckSettings,
    ServingRequest,
    SignatureRequest,
)
from contracts.storage import files, uris

# Rows sent as Examples for each row sent as text, which is sent alone, too.
_EXAMPLES_PER_TEXT = 4

# Sent to models that were trained on token ids, whose Examples contain no text: a plain
# sentence, an empty text, other scripts, and more tokens than the longest sequence.
FIXED_TEXTS = (
    "The cat sees the tree, and the dog does not.",
    "",
    "Ünïcödé ☃ 漢字 \N{GRINNING FACE}",
    "word " * 2000,
)


def build_request(
    pattern: str, model_run: str, settings: ServingCheckSettings
) -> ServingRequest:
    """Draws rows and builds the requests to both signatures.

    The rows are drawn at random, always the same, from those that have a prediction. If
    the rows have no ids, they are drawn from all rows, whose predictions must be finite
    but are not compared. Those of a pair are also sent with each column permuted. Rows
    with words for groups of people are drawn for themselves, and sent with their
    versions.

    Args:
      pattern: Files of a split, gzipped TFRecords of `tf.Example`s.
      model_run: Directory of the `ModelRun`.
      settings: The settings of the request.

    Raises:
      ValueError: No row has a prediction, the predictions lack a column, or a row lacks
        a text.
    """
    source = settings.predictions
    predictions = read_predictions(uris.join(model_run, source.file), source)
    count = settings.rows
    drawn = _draw_rows(
        pattern,
        source.id_column,
        predictions,
        count * _EXAMPLES_PER_TEXT if settings.has_text else count,
    )
    if not drawn:
        raise ValueError(
            f"no row in {pattern} has an {source.id_column!r} that is in "
            f"{source.file}; check that both are of the same split"
        )
    rows = [row for _, *row in sorted(drawn[:count]) + drawn[count:]]
    ids = [row for row, _ in rows if row in predictions]
    expected = [predictions[row] for row in ids]
    # A score is one number per row; a classifier has at least two probabilities.
    width = len(source.columns) if len(source.columns) > 1 else None
    sent = [example for _, example in rows]
    permuted = {}
    if settings.has_text and len(settings.text_columns) > 1:
        permuted = {
            column: {settings.examples_input: _serialize(permute(sent, column))}
            for column in settings.text_columns
        }
    swapped, not_swapped = {}, None
    lists = swapped_words.read_lists(settings.words)
    if not settings.has_text:
        not_swapped = "words are not swapped: the rows have token ids and no texts"
    elif not lists:
        not_swapped = "words are not swapped: evaluator.group_words has no list"
    else:
        drawn_words = swapped_words.draw(
            _read_examples(pattern),
            settings.text_columns,
            lists,
            source.id_column,
            count * _EXAMPLES_PER_TEXT,
        )
        for name, rows_of_list, to_send in drawn_words:
            inputs = {settings.examples_input: _serialize(to_send)}
            swapped[name] = rows_of_list.model_copy(update={"inputs": inputs})
        if not swapped:
            not_swapped = (
                f"words are not swapped: no row has one of evaluator.group_words "
                f"({', '.join(lists)})"
            )
    texts: dict[str, list[str | dict[str, str]]]
    if settings.has_text:
        texts = {
            column: [_read_text(example, column, row) for row, example in rows[:count]]
            for column in settings.text_columns
        }
    else:
        texts = {
            column: [*FIXED_TEXTS[index:], *FIXED_TEXTS[:index]]
            for index, column in enumerate(settings.text_columns)
        }
    text = SignatureRequest(
        name=settings.text_signature,
        inputs=texts,
        output=source.output,
        width=width,
        expected=(expected[:count] or None) if settings.has_text else None,
        timed=settings.has_text,
    )
    examples = SignatureRequest(
        name=settings.examples_signature,
        inputs={settings.examples_input: _serialize(sent)},
        output=source.output,
        width=width,
        expected=expected or None,
        timed=not settings.has_text,
        permuted=permuted,
        swapped=swapped,
    )
    limits = settings.model_dump(include=set(Limits.model_fields))
    return ServingRequest(
        ids=ids,
        signatures=[text, examples],
        tolerance=TOLERANCES[settings.precision],
        words=settings.words,
        not_swapped=not_swapped,
        **limits,
    )


def read_predictions(path: str, source: Predictions) -> dict[int, Any]:
    """Reads the predictions by row id: a list of floats, or a float.

    Args:
      path: The file, local or remote.
      source: Names its columns.

    Raises:
      ValueError: A column is missing.
    """
    predictions = collections.defaultdict(list)
    with tfx.dsl.io.fileio.open(path) as file:
        reader = csv.DictReader(file, delimiter="\t")
        required = [source.id_column, *source.columns]
        missing = [name for name in required if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(
                f"{path} has the columns {reader.fieldnames}, but not {missing}, which "
                "settings.predictions names"
            )
        for row in reader:
            values = [float(row[name]) for name in source.columns]
            predictions[int(row[source.id_column])].append(
                values[0] if len(values) == 1 else values
            )
    # An id that several rows share does not identify a row.
    return {row: values[0] for row, values in predictions.items() if len(values) == 1}


def select_examples(
    request: ServingRequest, settings: ServingCheckSettings
) -> list[dict[str, str]]:
    """Returns the first texts of a request, the examples to push with the model.

    Args:
      request: The request with the rows for the text signature.
      settings: Names the signature and the columns.

    Returns:
      The texts of each row by column; empty for a model that was trained on token ids.
      Rows with bytes that are not UTF-8 are left out.
    """
    if not settings.has_text:
        return []
    (inputs,) = (
        signature.inputs
        for signature in request.signatures
        if signature.name == settings.text_signature
    )
    texts = zip(*(inputs[name] for name in settings.text_columns), strict=True)
    rows = (row for row in texts if all(isinstance(text, str) for text in row))
    return [
        dict(zip(settings.text_columns, map(str, row), strict=True))
        for row in itertools.islice(rows, settings.examples)
    ]


def _draw_rows(
    pattern: str, id_column: str, ids: Collection[int], count: int
) -> list[tuple[int, int, tf.train.Example]]:
    """Returns rows with some ids in random order, each with its index and its id.

    Args:
      pattern: Files of a split.
      id_column: The feature with the id.
      ids: The ids; empty allows every row.
      count: The number of rows; fewer if the split has fewer.
    """
    examples = enumerate(_read_examples(pattern))
    rows = ((index, read_id(e, id_column), e) for index, e in examples)
    known = (row for row in rows if row[1] in ids or not ids)
    order = random.Random(0)
    return heapq.nsmallest(count, known, key=lambda _: order.random())


def _read_examples(pattern: str) -> Iterator[tf.train.Example]:
    records = tf.data.TFRecordDataset(files.list_records([pattern]), "GZIP")
    return map(tf.train.Example.FromString, records.as_numpy_iterator())


def _read_text(
    example: tf.train.Example, column: str, row: int
) -> str | dict[str, str]:
    texts = read_values(example, column)
    if len(texts) != 1:
        raise ValueError(
            f"row {row} has {len(texts)} texts in {column!r}, which "
            "settings.text_columns names; it must have one"
        )
    try:
        return texts[0].decode("utf-8")
    except UnicodeDecodeError:  # the model must get the same bytes
        return encode(texts[0])


def _serialize(examples: list[tf.train.Example]) -> list[str | dict[str, str]]:
    return [encode(example.SerializeToString()) for example in examples]


def encode(value: bytes) -> dict[str, str]:
    """Returns bytes as an entry of `SignatureRequest.inputs`."""
    return {"b64": base64.b64encode(value).decode()}
