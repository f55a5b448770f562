"""ONNX files compared with the pushed model, on labelled Examples."""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from contracts import metrics
from contracts.errors import UsageError
from contracts.metrics import Rows
from contracts.storage import files
from contracts.versions.exported_model import (
    EXAMPLES,
    LOGITS,
    SCORE,
    SERVE_EXAMPLES,
    TRANSFORM_FEATURES,
)
from ingest.examples import tf_examples
from ingest.rows.formats import TFRECORD
from ingest.rows.row_errors import RowError
from ingest.rows.row_file import RowFile
from modules.data.preprocessing import ENCODER_INPUTS
from prediction.portable import bert_graph
from prediction.portable.pushed_model import PushedModel
from prediction.predictor import split_batches
from prediction.saved_model.saved_model_predictor import SavedModelPredictor

SERVED = "served"


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What was measured.

    Attributes:
      rows: Number of rows.
      values: The metrics by name, of the served model and of each file.
      largest: The largest absolute output of the served model.
      differences: The largest difference of an output from the served one, by file.
      changes: The rows with another class or other labels, by file; empty for a
        regression.
    """

    rows: int
    values: dict[str, dict[str, float]]
    largest: float
    differences: dict[str, float]
    changes: dict[str, int]


def find_files(pattern: str) -> list[str]:
    """Returns the files of Examples that match a pattern.

    Raises:
      UsageError: No file matches.
    """
    try:
        return files.list_records([pattern])
    except files.MissingRecordsError as error:
        raise UsageError(
            "examples",
            f"{pattern} matches no file",
            "TFRecords of Examples, such as "
            '"OUTPUT/artifacts/ImportExampleGen/examples/*/Split-test/*"',
            name="E-data-not-found",
        ) from error


def evaluate(
    model: PushedModel,
    paths: Sequence[Path],
    pattern: str,
    label_column: str,
    python: str,
) -> Evaluation:
    """Predicts Examples with the served model and with ONNX files.

    Args:
      model: The model.
      paths: The ONNX files.
      pattern: TFRecords of Examples as the model was evaluated on.
      label_column: The feature with the index of the class, or with the score.
      python: A Python that has ONNX Runtime.

    Raises:
      UsageError: No file matches, or an Example has no label of the model.
    """
    examples, labels = _read(model, pattern, label_column)
    served, inputs = _predict(model, examples)
    logits = {SERVED: served}
    with tempfile.TemporaryDirectory() as name:
        rows, results = Path(name) / "rows.npz", Path(name) / "logits.npz"
        np.savez(rows, **inputs)
        # By its path: the environment does not have this project.
        script = Path(__file__).with_name("run_onnx.py")
        subprocess.run([python, script, rows, results, *paths], check=True)
        with np.load(results) as predicted:
            logits |= {path.name: predicted[str(path)] for path in paths}
    classes = model.kind.names or None
    predicted_rows = {
        name: Rows.of(
            labels,
            model.kind.from_logits(values, model.temperature),
            threshold=model.threshold,
        )
        for name, values in logits.items()
    }
    predictions = {name: rows.predictions for name, rows in predicted_rows.items()}
    return Evaluation(
        rows=len(labels),
        values={
            name: metrics.compute(classes, rows)
            for name, rows in predicted_rows.items()
        },
        largest=float(abs(served).max()),
        differences={
            path.name: float(abs(logits[path.name] - served).max()) for path in paths
        },
        changes={
            path.name: int(
                sum(map(np.any, predictions[path.name] != predictions[SERVED]))
            )
            for path in paths
            if model.kind.names
        },
    )


def _read(
    model: PushedModel, pattern: str, label_column: str
) -> tuple[list[bytes], np.ndarray]:
    """Returns Examples, and their labels.

    Returns:
      Serialized Examples, and int64[rows], int64[rows, classes] of several labels, or
      float64[rows] of a regression.
    """
    examples, labels = [], []
    for path in find_files(pattern):
        for location, record in RowFile(path, TFRECORD).read():
            try:
                if isinstance(record, RowError):
                    raise record
                assert isinstance(record, bytes)
                # Other features may be any bytes.
                feature = tf_examples.parse(record).features.feature.get(label_column)
                kind = feature.WhichOneof("kind") if feature else None
                values = list(getattr(feature, kind).value) if kind else []
                label = model.kind.read(values)
                if label is None:
                    shown = values[0] if len(values) == 1 else values or None
                    raise RowError(
                        f"{label_column} is {shown!r}, not a label of the model "
                        f"({model.kind.low} to {model.kind.high})"
                    )
            except RowError as error:
                raise UsageError(
                    str(location),
                    str(error),
                    advice="name the feature of the label with `label_column`, or "
                    "correct the Example",
                    name="E-rows-refused",
                ) from error
            examples.append(record)
            labels.append(label)
    if not examples:
        raise UsageError(
            "examples",
            f"{pattern} has no Examples",
            advice="name a split with rows",
            name="E-data-not-found",
        )
    return examples, np.array(labels)


def _predict(
    model: PushedModel, examples: list[bytes]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns the served logits, or scores float32[rows, 1], and the token ids."""
    import tensorflow as tf  # takes seconds; the files are read before

    predictor = SavedModelPredictor(model.directory)
    logits, inputs = [], []
    for batch in split_batches(examples):
        feeds = {EXAMPLES: tf.constant(batch)}
        outputs = predictor.signatures[SERVE_EXAMPLES](**feeds)
        logits.append(
            outputs[LOGITS].numpy()
            if LOGITS in outputs
            else outputs[SCORE].numpy()[:, np.newaxis]
        )
        ids = predictor.signatures[TRANSFORM_FEATURES](**feeds)
        tokens = np.stack([ids[name].numpy() for name in ENCODER_INPUTS])
        padding = model.max_seq_length - tokens.shape[2]
        inputs.append(np.pad(tokens, [(0, 0), (0, 0), (0, padding)]))
    columns = np.concatenate(inputs, axis=1).astype(np.int64)
    return np.concatenate(logits), dict(zip(bert_graph.INPUTS, columns, strict=True))
