"""Builds the request of a check from real rows and the Trainer's predictions."""

from __future__ import annotations

import base64
import collections
import itertools

import tensorflow as tf

from components.examples import read_id, read_records, read_values
from components.serving_check.request import ServingRequest, SignatureRequest
from contracts.settings.sections import Sections
from contracts.versions import exported_model
from modules.data import sampling
from modules.evaluation import prediction_files

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


def build_request(pattern: str, model_run: str, settings: Sections) -> ServingRequest:
    """Draws rows and builds the requests to both signatures.

    The rows are a sample of those that have a prediction. If the rows have no ids, it
    is one of all rows, whose predictions must be finite but are not compared.

    Args:
      pattern: Files of a split, gzipped TFRecords of `tf.Example`s.
      model_run: Directory of the `ModelRun`.
      settings: The settings of the request.

    Raises:
      ValueError: No row has a prediction, or a row lacks a text.
    """
    task, count = settings.task, settings.serving.rows
    columns, has_text = task.text_columns, not task.is_tokenized
    split = settings.evaluator.gate_split
    recorded = prediction_files.read_predictions(model_run, task, split)
    # An id that several rows share does not identify a row.
    counts = collections.Counter(recorded.ids.tolist())
    identified = zip(recorded.ids.tolist(), recorded.outputs.tolist(), strict=True)
    predictions = {row: output for row, output in identified if counts[row] == 1}
    parsed = (
        (record, tf.train.Example.FromString(record))
        for record in read_records(pattern)
    )
    known = (
        (read_id(example, task.id_column), example, record)
        for record, example in parsed
        if not predictions or read_id(example, task.id_column) in predictions
    )
    most = count * _EXAMPLES_PER_TEXT if has_text else count
    drawn = sampling.draw(known, most, lambda row: row[-1])
    if not drawn:
        raise ValueError(
            f"no row in {pattern} has an {task.id_column!r} that is in the "
            f"predictions of {split}; check that both are of the same split"
        )
    rows = [(row, example) for row, example, _ in drawn]
    ids = [row for row, _ in rows if row in predictions]
    expected = [predictions[row] for row in ids]
    # A score is one number per row; a classifier has at least two probabilities.
    width = len(task.label_kind.names) or None
    sent = [example for _, example in rows]
    texts: dict[str, list[str | dict[str, str]]]
    if has_text:
        texts = {
            column: [_read_text(example, column, row) for row, example in rows[:count]]
            for column in columns
        }
    else:
        texts = {
            column: [*FIXED_TEXTS[index:], *FIXED_TEXTS[:index]]
            for index, column in enumerate(columns)
        }
    text = SignatureRequest(
        name=exported_model.SERVING_DEFAULT,
        inputs=texts,
        output=task.label_kind.output,
        width=width,
        expected=(expected[:count] or None) if has_text else None,
        timed=has_text,
    )
    examples = SignatureRequest(
        name=exported_model.SERVE_EXAMPLES,
        inputs={exported_model.EXAMPLES: _serialize(sent)},
        output=task.label_kind.output,
        width=width,
        expected=expected or None,
        timed=not has_text,
    )
    return ServingRequest(
        settings=settings,
        ids=ids,
        signatures=[text, examples],
    )


def select_examples(request: ServingRequest) -> list[dict[str, str]]:
    """Returns the first texts of a request, the examples to push with the model.

    Args:
      request: The request with the rows for the text signature.

    Returns:
      The texts of each row by column; empty for a model that was trained on token ids.
      Rows with bytes that are not UTF-8 are left out.
    """
    task = request.settings.task
    if task.is_tokenized:
        return []
    (inputs,) = (
        signature.inputs
        for signature in request.signatures
        if signature.name == exported_model.SERVING_DEFAULT
    )
    texts = zip(*(inputs[name] for name in task.text_columns), strict=True)
    rows = (row for row in texts if all(isinstance(text, str) for text in row))
    return [
        dict(zip(task.text_columns, map(str, row), strict=True))
        for row in itertools.islice(rows, request.settings.serving.examples)
    ]


def _read_text(
    example: tf.train.Example, column: str, row: int
) -> str | dict[str, str]:
    texts = read_values(example, column)
    if len(texts) != 1:
        raise ValueError(
            f"row {row} has {len(texts)} texts in {column!r}, which "
            "task.text_columns names; it must have one"
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
