"""The predictions of a report: metrics, curves and the rows with the highest loss."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from contracts import metrics
from contracts.packing import Packing
from contracts.storage import files
from contracts.task import abstention
from contracts.task.definition import TOKENIZED_FEATURES, TaskConfig
from modules.data import preprocessing, row_facts
from modules.evaluation import calibration
from modules.evaluation.prediction_files import RecordedPredictions
from report.content import (
    Abstention,
    Classification,
    Curve,
    PrecisionRecall,
    PredictedRow,
    Regression,
)

MOST_ROWS = 200
NO_LABEL = "(no label)"
_MOST_POINTS = 300  # of a curve: a picture shows no more
_PICTURE_POINTS = 1_500  # of all curves of a picture, if these are few
_LEAST_POINTS = 50  # of one of many curves
_MOST_SCORES = 2_000
_PARSED_ROWS = 4_096
_MIN_PROBABILITIES = (0.6, 0.7, 0.8, 0.9, 0.95)


def classification(
    task: TaskConfig,
    labels: np.ndarray,
    probabilities: np.ndarray,
    predicted: np.ndarray | None = None,
    *,
    temperature: float | None = None,
) -> Classification:
    """Compares predicted classes with the labels.

    Rows with a probability that is not finite are left out, and what takes all rows is
    NaN or empty.

    Args:
      task: Names the classes.
      labels: int64[rows], or int64[rows, classes] of several labels.
      probabilities: float64[rows, classes].
      predicted: As in `Rows.of`.
      temperature: That of the probabilities; None if they have none.
    """
    kind = task.label_kind
    classes = range(kind.outputs)
    rows = metrics.Rows.of(labels, probabilities, predicted=predicted)
    predicted = rows.predictions
    is_finite = np.isfinite(probabilities).all(axis=1)
    probabilities = np.where(is_finite[:, np.newaxis], probabilities, np.nan)
    shown = kind.decided_names or kind.names
    points = min(_MOST_POINTS, max(_PICTURE_POINTS // len(shown), _LEAST_POINTS))
    has_class = labels == 1 if rows.has_label_sets else labels[:, None] == classes
    return Classification(
        confusion=[]
        if "confusion" not in kind.sections
        else sklearn_metrics.confusion_matrix(
            labels[is_finite], predicted[is_finite], labels=list(classes)
        ).tolist(),
        label_rows=[] if "confusion" in kind.sections else kind.count(labels).tolist(),
        precision_recall=[
            _precision_recall(
                name,
                has_class[:, index],
                probabilities[:, index],
                points,
            )
            for index, name in enumerate(kind.names)
            if name in shown
        ],
        calibration=calibration.fill_bins(labels, probabilities),
        expected_calibration_error=calibration.measure(
            labels, probabilities
        ).expected_calibration_error,
        unscaled=[]
        if temperature is None
        else calibration.fill_bins(
            labels,
            calibration.scale(
                probabilities, 1 / temperature, are_independent=rows.has_label_sets
            ),
        ),
    )


def describe_abstention(split: str, predictions: RecordedPredictions) -> Abstention:
    """Returns what follows if improbable classes of a split are not predicted."""
    _, labels, probabilities, predicted = predictions
    shares, accuracies = abstention.curve(labels, probabilities, predicted)
    kept = np.unique(np.linspace(0, len(shares) - 1, _MOST_POINTS).astype(int))
    kept = kept[: len(shares)]
    points = [
        abstention.measure(labels, probabilities, predicted, least)
        for least in _MIN_PROBABILITIES
    ]
    return Abstention(
        split=split,
        rows=len(labels),
        curve=Curve(x=shares[kept].tolist(), y=accuracies[kept].tolist()),
        points=points,
    )


def regression(labels: np.ndarray, scores: np.ndarray) -> Regression:
    """Samples finite scores and their labels, both float64[rows], evenly."""
    is_finite = np.isfinite(scores)
    labels, scores = labels[is_finite], scores[is_finite]
    step = max(1, math.ceil(len(labels) / _MOST_SCORES))
    return Regression(labels=labels[::step].tolist(), scores=scores[::step].tolist())


def worst_rows(
    task: TaskConfig,
    ids: np.ndarray,
    labels: np.ndarray,
    outputs: np.ndarray,
    examples: str,
    vocab_file: str,
    packing: Packing,
    *,
    predicted: np.ndarray | None = None,
) -> list[PredictedRow]:
    """Returns the rows with the highest loss, the worst first.

    Args:
      task: Names the columns and classes.
      ids: int64[rows].
      labels: int64[rows], int64[rows, classes] of several labels, or float64[rows] of
        a regression.
      outputs: Probabilities float64[rows, classes], or scores float64[rows].
      examples: Pattern of the split's Examples, gzipped TFRecords.
      vocab_file: One token a line.
      packing: How texts become model inputs.
      predicted: As in `Rows.of`.
    """
    # Recorded probabilities have six digits; a smaller one is 0.
    table = metrics.Rows.of(labels, outputs, predicted=predicted)
    losses = np.nan_to_num(table.losses, nan=math.inf, posinf=math.inf)
    worst = np.argsort(-losses, kind="stable")[:MOST_ROWS]
    matches = _find_examples(examples, task, set(ids[worst].tolist()))
    texts = {row_id: _read_texts(example, task) for row_id, example in matches.items()}
    if task.is_tokenized:
        tokens = {row_id: _read_tokens(example) for row_id, example in matches.items()}
        cuts = dict.fromkeys(tokens, 0)
    else:
        tokens, cuts = _tokenize(texts, vocab_file, packing.whole)
    vocabulary = preprocessing.read_vocab(vocab_file)
    names, rows = task.label_kind.names, []
    for index in worst:
        row_id = int(ids[index])
        rows.append(
            PredictedRow(
                id=row_id,
                texts=texts.get(row_id, []),
                label=task.describe_label(labels[index]) or NO_LABEL,
                prediction=task.describe_label(table.predictions[index]) or NO_LABEL,
                probabilities=dict(
                    zip(names, outputs[index].tolist(), strict=True) if names else ()
                ),
                loss=float(table.losses[index]),
                tokens=[vocabulary[token] for token in tokens.get(row_id, [])],
                cut=cuts.get(row_id),
            )
        )
    return rows


def _precision_recall(
    name: str, is_positive: np.ndarray, probabilities: np.ndarray, most: int
) -> PrecisionRecall:
    positives = float(is_positive.mean())
    if not positives or np.isnan(probabilities).any():
        return PrecisionRecall(
            class_name=name,
            curve=Curve(x=[], y=[]),
            average_precision=math.nan,
            positives=positives,
        )
    precision, recall, _ = sklearn_metrics.precision_recall_curve(
        is_positive, probabilities
    )
    points = np.unique(np.linspace(0, len(recall) - 1, most).astype(int))
    recall, precision = (values[points].round(4) for values in (recall, precision))
    return PrecisionRecall(
        class_name=name,
        curve=Curve(x=recall.tolist(), y=precision.tolist()),
        average_precision=sklearn_metrics.average_precision_score(
            is_positive, probabilities
        ),
        positives=positives,
    )


def _find_examples(
    pattern: str, task: TaskConfig, ids: set[int]
) -> dict[int, tf.train.Example]:
    """Returns the Examples with some ids, except Examples whose id is not unique."""
    paths = files.list_records([pattern])
    records = tf.data.TFRecordDataset(paths, compression_type="GZIP")
    column = {task.id_column: tf.io.FixedLenFeature([], tf.int64, default_value=-1)}
    matches: dict[int, tf.train.Example] = {}
    repeated: set[int] = set()
    for batch in records.batch(_PARSED_ROWS):
        # The other columns of most rows are not needed.
        batch_ids = tf.io.parse_example(batch, column)[task.id_column].numpy()
        for index in np.flatnonzero(np.isin(batch_ids, list(ids))):
            row_id = int(batch_ids[index])
            if row_id in matches:
                repeated.add(row_id)
            matches[row_id] = tf.train.Example.FromString(batch[index].numpy())
    return {row_id: row for row_id, row in matches.items() if row_id not in repeated}


def _read_texts(example: tf.train.Example, task: TaskConfig) -> list[str]:
    features = example.features.feature
    return [
        value.decode("utf-8", "replace")
        for column in task.text_columns
        if column in features
        for value in features[column].bytes_list.value[:1]
    ]


def _read_tokens(example: tf.train.Example) -> list[int]:
    ids, mask, _ = (
        example.features.feature[name].int64_list.value for name in TOKENIZED_FEATURES
    )
    return [token for token, is_real in zip(ids, mask, strict=True) if is_real]


def _tokenize(
    texts: dict[int, list[str]], vocab_file: str, packing: Packing
) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Returns the tokens of each row as a whole, and how many were cut."""
    if not texts:
        return {}, {}
    columns = [list(column) for column in zip(*texts.values(), strict=True)]
    segments = [tf.constant(column) for column in columns]
    packed = preprocessing.text_to_inputs(segments, vocab_file, packing)
    tokens = packed[preprocessing.INPUT_WORD_IDS].to_list()
    lengths = row_facts.count_tokens(columns, vocab_file).lengths.tolist()
    cuts = [length - len(row) for length, row in zip(lengths, tokens, strict=True)]
    return dict(zip(texts, tokens, strict=True)), dict(zip(texts, cuts, strict=True))
