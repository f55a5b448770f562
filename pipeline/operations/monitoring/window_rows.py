"""Reads the rows of windows, and measures them with the served model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.example import example_pb2

from contracts.errors import UsageError
from contracts.storage import files, uris
from contracts.versions.exported_model import (
    CLASS,
    CUT,
    EXAMPLES,
    LABELS,
    PROBABILITIES,
    SCORE,
    SERVING_DEFAULT,
    TOKEN,
    TOKENIZE,
    TRANSFORM_FEATURES,
)
from ingest.examples import tf_examples
from ingest.rows.formats import TFRECORD
from ingest.rows.row_errors import RowError, VanishedFileError
from ingest.rows.row_file import RowFile
from modules.data.preprocessing import INPUT_MASK, INPUT_WORD_IDS
from modules.encoder.model import WORD_EMBEDDINGS
from pipeline.operations.monitoring.delayed_labels import PredictedRow, Texts
from pipeline.operations.monitoring.drift import Window
from prediction.model_directory import not_pushed
from prediction.predictor import split_batches
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from serving import sampling


class ServedModel:
    """A SavedModel of this pipeline.

    Args:
      directory: The SavedModel.

    Attributes:
      columns: Its text columns in the order of the task.
      labels: The names of several labels; empty if it predicts a class or a score.
    """

    def __init__(self, directory: str) -> None:
        self._predictor = SavedModelPredictor(directory)
        signatures = self._predictor.signatures
        if TOKENIZE not in signatures or TRANSFORM_FEATURES not in signatures:
            raise not_pushed(directory, f"signature {TOKENIZE}")
        self._signatures = signatures
        self.columns = self._predictor.columns
        self.labels = list(self._predictor.labels or ())
        # The signatures return no vector of the encoder. The mean of the word
        # embeddings is in every model that was pushed.
        self._embeddings = next(
            tf.cast(variable, tf.float32)
            for variable in signatures[SERVING_DEFAULT].variables
            if f"{WORD_EMBEDDINGS}/" in variable.name
        )

    def predict(self, rows: Sequence[Texts]) -> list[PredictedRow]:
        """Predicts texts."""
        predicted = []
        for batch in split_batches(rows):
            tensors = self._signatures[SERVING_DEFAULT](**self._inputs(batch))
            outputs = {name: tensor.numpy() for name, tensor in tensors.items()}
            for row, texts in enumerate(batch):
                if SCORE in outputs:
                    predicted.append(PredictedRow(texts, (outputs[SCORE][row].item(),)))
                    continue
                shares = tuple(outputs[PROBABILITIES][row].tolist())
                if self.labels:
                    labels = tuple(outputs[LABELS][row].tolist())
                    predicted.append(PredictedRow(texts, shares, labels=labels))
                else:
                    name = outputs[CLASS][row].decode()
                    predicted.append(PredictedRow(texts, shares, name))
        return predicted

    def measure(self, rows: Sequence[PredictedRow]) -> Window:
        """Returns what `drift.compare` compares, of at least one row."""
        parts = [
            self._measure([row.texts for row in batch]) for batch in split_batches(rows)
        ]
        lengths, unknown, embeddings = map(np.concatenate, zip(*parts, strict=True))
        flags = np.array([row.labels for row in rows])
        return Window(
            lengths=lengths,
            unknown=unknown,
            scores=np.array(
                [row.outputs if self.labels else max(row.outputs) for row in rows]
            ),
            embeddings=embeddings,
            classes=[row.class_name for row in rows if row.class_name],
            labels=dict(zip(self.labels, flags.T, strict=True)) if self.labels else {},
        )

    def _measure(
        self, batch: Sequence[Texts]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        tokenized = self._signatures[TOKENIZE](**self._inputs(batch))
        tokens = tokenized[TOKEN].numpy()
        kept = (tokens != b"").sum(axis=1)
        unknown = (tokens == b"[UNK]").sum(axis=1) / kept
        examples = []
        for texts in batch:
            example = example_pb2.Example()
            for name, text in zip(self.columns, texts, strict=True):
                example.features.feature[name].bytes_list.value.append(text)
            examples.append(example.SerializeToString())
        packed = self._signatures[TRANSFORM_FEATURES](
            **{EXAMPLES: tf.constant(examples, tf.string)}
        )
        mask = tf.cast(packed[INPUT_MASK], tf.float32)[..., tf.newaxis]
        words = tf.gather(self._embeddings, packed[INPUT_WORD_IDS]) * mask
        means = tf.reduce_sum(words, axis=1) / tf.reduce_sum(mask, axis=1)
        return kept + tokenized[CUT].numpy().sum(axis=1), unknown, means.numpy()

    def _inputs(self, batch: Sequence[Texts]) -> dict[str, tf.Tensor]:
        columns = zip(self.columns, zip(*batch, strict=True), strict=True)
        return {name: tf.constant(texts, tf.string) for name, texts in columns}


def read_texts(pattern: str, columns: Sequence[str]) -> list[Texts]:
    """Reads the texts of TFRecords of Examples.

    Args:
      pattern: The files, local or remote, gzipped if they end with `.gz`.
      columns: The text columns.

    Raises:
      UsageError: No file matches, or an Example has no text.
    """
    rows = []
    for path in files.list_records([pattern]):
        for features in _read(path):
            texts = _texts(features, columns)
            if texts is None:
                raise UsageError(
                    "reference",
                    f"an Example of {path} lacks a column of the model",
                    f"Examples with {', '.join(columns)}",
                    name="E-rows-refused",
                )
            rows.append(texts)
    return rows


def read_sample(
    directory: str, columns: Sequence[str], names: Sequence[str] = ()
) -> list[PredictedRow]:
    """Reads the rows that `serve --sample-dir` keeps.

    Rows whose texts or predictions were redacted are left out, and those of an earlier
    version with another number of labels.

    Args:
      directory: The directory.
      columns: The text columns.
      names: The names of several labels; empty for a class or a score.

    Raises:
      UsageError: The directory has no files.
    """
    try:
        paths = files.list_records([uris.join(directory, sampling.FILES)])
    except files.MissingRecordsError as error:
        raise UsageError(
            "samples",
            f"{directory} has no file {sampling.FILES}",
            advice="name the directory where `serve` keeps samples of requests; it has "
            "a file a minute after the first request",
            name="E-data-not-found",
        ) from error
    rows = []
    for path in paths:
        try:
            examples = _read(path)
        except VanishedFileError:  # the server deletes the oldest files
            continue
        for features in examples:
            texts = _texts(features, columns)
            keys = (f"{sampling.PREFIX}{name}" for name in (PROBABILITIES, SCORE))
            outputs = [features[k].float_list.value for k in keys if k in features]
            times = _values(features, sampling.TIME, "int64_list")
            if texts is None or not outputs or not outputs[0] or not times:
                continue
            is_score = len(outputs[0]) == 1
            name = _values(features, f"{sampling.PREFIX}{CLASS}", "bytes_list")
            labels = _values(features, f"{sampling.PREFIX}{LABELS}", "int64_list")
            if len(labels) != len(names) or not (name or labels or is_score):
                continue
            class_name = name[0].decode() if name else ""
            versions = _values(features, sampling.MODEL_VERSION, "int64_list")
            version = str(versions[0]) if versions else ""
            row = (texts, tuple(outputs[0]), class_name, times[0], version)
            rows.append(PredictedRow(*row, tuple(labels)))
    return rows


def _read(path: str) -> list[Mapping]:
    examples = []
    for location, record in RowFile(path, TFRECORD).read():
        try:
            if isinstance(record, RowError):
                raise record
            assert isinstance(record, bytes)
            examples.append(tf_examples.parse(record).features.feature)
        except RowError as error:
            raise UsageError(
                path,
                f"record {location.row} cannot be read: {error}",
                "a TFRecord file of Examples, with a name that ends in .gz if it is "
                "gzipped",
                name="E-rows-refused",
            ) from error
    return examples


def _texts(features: Mapping, columns: Sequence[str]) -> Texts | None:
    values = [_values(features, name, "bytes_list") for name in columns]
    if any(len(value) != 1 for value in values):
        return None
    return tuple(value[0] for value in values)


def _values(features: Mapping, name: str, kind: str) -> list:
    # Reading a missing key of a protobuf map would add it.
    return list(getattr(features[name], kind).value) if name in features else []
