"""ONNX files compared with the pushed model, on labelled Examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from contracts import metrics
from contracts.errors import UsageError
from contracts.metrics import Rows
from contracts.storage import files
from contracts.versions.exported_model import (
    EXAMPLES,
    SERVE_EXAMPLES,
    TRANSFORM_FEATURES,
)
from ingest.examples import tf_examples
from ingest.rows.formats import TFRECORD
from ingest.rows.row_errors import RowError
from ingest.rows.row_file import RowFile
from modules.data.preprocessing import ENCODER_INPUTS
from modules.export.onnx import comparison
from modules.export.onnx.comparison import Difference
from modules.export.pushed_model import PushedModel
from portable.model import Outputs, PortableModel
from portable.packing import Packed
from prediction.predictor import split_batches
from prediction.saved_model.saved_model_predictor import SavedModelPredictor

SERVED = "served"


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What was measured.

    Attributes:
      rows: Number of rows.
      values: The metrics by name, of the served model and of each file.
      differences: How the predictions of each file differ from the served ones.
    """

    rows: int
    values: dict[str, dict[str, float]]
    differences: dict[str, Difference]

    def describe_differences(self) -> list[tuple[str, list[str]]]:
        """Returns lines of a table: a title, and a value for each file."""
        differences = self.differences.values()
        is_score = any(one.changes is None for one in differences)
        largest = [f"{one.largest:.1g}" for one in differences]
        lines = [
            (
                f"largest difference of a {'score' if is_score else 'probability'}",
                largest,
            )
        ]
        if not is_score:
            changes = [str(one.changes) for one in differences]
            lines.append(("rows with another prediction", changes))
        return lines


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
    directory: str,
    names: Sequence[str],
    pattern: str,
    label_column: str,
) -> Evaluation:
    """Predicts Examples with the served model and with ONNX files.

    Texts are tokenized by each of both. Rows that another tool tokenized have no texts,
    so that ONNX Runtime gets the token ids of the served model.

    Args:
      model: The model.
      directory: Its portable folder.
      names: The ONNX files.
      pattern: TFRecords of Examples as the model was evaluated on.
      label_column: The feature with the index of the class, or with the score.

    Raises:
      UsageError: No file matches, or an Example has no text or no label of the model.
    """
    examples = _read(model, pattern, label_column)
    labels = np.array([example.label for example in examples])
    served, packed = _predict_served(model, examples)
    texts = list(zip(*(example.texts for example in examples), strict=True))
    outputs = {SERVED: served}
    for name in names:
        portable = PortableModel(directory, file=name)
        outputs[name] = (
            portable.predict_packed(packed) if packed else portable.predict(texts)
        )
    return Evaluation(
        rows=len(examples),
        values={
            name: metrics.compute(
                model.kind.names or None,
                Rows.of(
                    labels, predicted[model.kind.output], threshold=model.threshold
                ),
            )
            for name, predicted in outputs.items()
        },
        differences={name: comparison.compare(served, outputs[name]) for name in names},
    )


@dataclasses.dataclass(frozen=True)
class _Example:
    """A labelled Example.

    Attributes:
      serialized: The Example.
      label: An index, a score, or 0 or 1 for each of several labels.
      texts: Its texts; empty if it has token ids.
    """

    serialized: bytes
    label: Any
    texts: tuple[bytes, ...]


def _read(model: PushedModel, pattern: str, label_column: str) -> list[_Example]:
    columns = [] if _is_tokenized(model) else model.text_columns
    examples = []
    for path in find_files(pattern):
        for location, record in RowFile(path, TFRECORD).read():
            try:
                if isinstance(record, RowError):
                    raise record
                assert isinstance(record, bytes)
                values = _values(record, label_column)
                label = model.kind.read(values)
                if label is None:
                    shown = values[0] if len(values) == 1 else values or None
                    raise RowError(
                        f"{label_column} is {shown!r}, not a label of the model "
                        f"({model.kind.low} to {model.kind.high})"
                    )
                texts = tuple(_text(record, column) for column in columns)
            except RowError as error:
                raise UsageError(
                    str(location),
                    str(error),
                    advice="name the feature of the label with `label_column`, or "
                    "correct the Example",
                    name="E-rows-refused",
                ) from error
            examples.append(_Example(record, label, texts))
    if not examples:
        raise UsageError(
            "examples",
            f"{pattern} has no Examples",
            advice="name a split with rows",
            name="E-data-not-found",
        )
    return examples


def _text(record: bytes, column: str) -> bytes:
    values = _values(record, column)
    if len(values) != 1 or not isinstance(values[0], bytes):
        raise RowError(f"the feature {column} is not one text")
    return values[0]


def _values(record: bytes, name: str) -> list[Any]:
    """Returns the values of a feature; empty if it is missing."""
    # Other features may be any bytes.
    feature = tf_examples.parse(record).features.feature.get(name)
    kind = feature.WhichOneof("kind") if feature else None
    return list(getattr(feature, kind).value) if feature and kind else []


def _is_tokenized(model: PushedModel) -> bool:
    return model.description["input"] == "tokenized"


def _predict_served(
    model: PushedModel, examples: Sequence[_Example]
) -> tuple[Outputs, list[Packed]]:
    """Returns the served outputs; and the packed rows, of Examples with token ids."""
    import tensorflow as tf  # takes seconds; the files are read before

    predictor = SavedModelPredictor(model.directory)
    batches = []
    packed = []
    for batch in split_batches(example.serialized for example in examples):
        feeds = {EXAMPLES: tf.constant(batch)}
        outputs = predictor.signatures[SERVE_EXAMPLES](**feeds)
        batches.append({name: values.numpy() for name, values in outputs.items()})
        if _is_tokenized(model):
            features = predictor.signatures[TRANSFORM_FEATURES](**feeds)
            columns = (features[name].numpy() for name in ENCODER_INPUTS)
            packed += [
                Packed(ids[mask == 1].tolist(), types[mask == 1].tolist())
                for ids, mask, types in zip(*columns, strict=True)
            ]
    served = {
        name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]
    }
    return served, packed
