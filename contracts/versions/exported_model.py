"""An exported model: its files, signatures, description and digests."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from contracts import fingerprint
from contracts.storage import files, uris

if TYPE_CHECKING:
    from contracts.task.definition import TaskConfig

# The files and directories of a SavedModel, as TensorFlow names them in
# `tensorflow/python/saved_model/constants.py`.
GRAPH_FILE = "saved_model.pb"  # a directory with this file is a SavedModel
FINGERPRINT_FILE = "fingerprint.pb"
VARIABLES = "variables"  # the directory, and the prefix of the files in it
ASSETS = "assets"
EXTRA_ASSETS = "assets.extra"  # for files that TensorFlow does not read
DESCRIPTION_FILE = f"{EXTRA_ASSETS}/architecture.json"
VOCABULARY_FILE = f"{EXTRA_ASSETS}/vocab.txt"  # one token a line
_DIGEST_FILE = "model.json"  # in the `ModelRun`

# The portable folder for ONNX Runtime, which a pushed version may contain.
PORTABLE_FILE = "model.json"  # a directory with this file is such a folder
PORTABLE_DIRECTORY = "onnx"

# The signatures, their inputs and outputs.
SERVING_DEFAULT = "serving_default"
SERVE_EXAMPLES = "serve_examples"
TRANSFORM_FEATURES = "transform_features"
SLICE_FEATURES = "slice_features"
TOKENIZE = "tokenize"
EXAMPLES = "examples"  # input of all signatures that take no text
LOGITS = "logits"
PROBABILITIES = "probabilities"
CLASS_ID = "class_id"
CLASS = "class"
LABELS = "labels"  # 1 for each predicted label of several, and 0
SCORE = "score"
# The outputs of `TOKENIZE`; see `modules.export.serving_model.find_tokens`.
TOKEN = "token"
COLUMN = "column"
START = "start"
END = "end"
CUT = "cut"

# The keys of the description.
MAX_SEQ_LENGTH = "max_seq_length"  # the longest sequence in tokens
KEEP = "keep"  # the part of a longer text that is kept
LONG_TEXT = "long_text"  # the windows of texts
LAYER_NORM_EPS = "layer_norm_eps"  # the epsilon of the normalization
PRECISION = "precision"  # the type of the weights
TOKENIZER = "tokenizer"  # its settings
TEMPERATURE = "temperature"  # what divides the logits of classes
# The least probability of the positive class, or the thresholds of several labels.
THRESHOLD = "threshold"
SEPARATOR = "separator"  # what joins the names of several labels in texts
SCORE_SCALE = "score_scale"  # mean and standard deviation of a regression


def describe_task(task: TaskConfig) -> dict[str, Any]:
    """Returns the settings that two models share if they fit the same rows."""
    return {
        "input": task.input,
        "kind": task.kind,
        "text_columns": task.text_columns,
        "classes": task.classes,
        "label_range": task.label_range,
    }


def write_description(model: str, description: dict[str, Any]) -> None:
    """Writes a description into an exported model.

    Args:
      model: Directory of a SavedModel.
      description: The task, as `describe_task` returns it, the architecture, the
        tokenizer's settings, the longest sequence, `keep` and `long_text` if they are
        set, the type of the weights, and the scale of the scores, or the temperature
        and the threshold of classes, and the separator of several labels.
    """
    files.write_record(uris.join(model, DESCRIPTION_FILE), description)


def read_description(model: str) -> dict[str, Any] | None:
    """Returns the description of an exported model; None if it is missing."""
    return files.read_record(uris.join(model, DESCRIPTION_FILE))


def differences(actual: dict[str, Any], expected: dict[str, Any]) -> str:
    """Describes the keys whose values differ; empty if all are equal."""
    return "; ".join(
        f"{key} {actual.get(key)} instead of {value}"
        for key, value in expected.items()
        if actual.get(key) != value
    )


def find_task_difference(model: str, expected: dict[str, Any]) -> str:
    """Returns why a model cannot be evaluated on a task; empty if it can.

    Args:
      model: Directory of a SavedModel. Without a description, it can be evaluated.
      expected: The task, as `describe_task` returns it.
    """
    described = read_description(model)
    return "" if described is None else differences(described, expected)


@dataclasses.dataclass(frozen=True)
class ModelDigest:
    """The digests of an exported model, for components that only identify it.

    An orchestrator copies every input artifact to the component's machine. The digests
    are in the `ModelRun`, so that only components that load the model have it as an
    input.

    Attributes:
      uri: The directory that it was exported to.
      identity: SHA-256 of `fingerprint.pb`, which differs between two exports; empty if
        the model lacks this file.
      graph: SHA-256 of `saved_model.pb`.
    """

    uri: str
    identity: str
    graph: str


def write_digest(model: str, directory: str) -> None:
    """Writes the digests of a model."""
    graph = fingerprint.of_file(uris.join(model, GRAPH_FILE))
    digest = ModelDigest(model, identity(model), graph)
    files.write_record(uris.join(directory, _DIGEST_FILE), dataclasses.asdict(digest))


def read_digest(directory: str) -> ModelDigest:
    """Returns the digests in the directory of a `ModelRun`."""
    return ModelDigest(**files.read_record(uris.join(directory, _DIGEST_FILE)))


def identity(model: str) -> str:
    """Returns the SHA-256 of a SavedModel's `fingerprint.pb`; empty if it lacks one."""
    # `tf.saved_model.save` writes a random identifier of the save into this file.
    path = uris.join(model, FINGERPRINT_FILE)
    return "" if files.size(path) is None else fingerprint.of_file(path)
