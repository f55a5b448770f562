"""The description of an exported model: its task and its architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contracts.storage import files, uris
from contracts.versions.saved_model_files import EXTRA_ASSETS

if TYPE_CHECKING:
    from contracts.task.definition import TaskConfig

FILE = f"{EXTRA_ASSETS}/architecture.json"
VOCABULARY_FILE = f"{EXTRA_ASSETS}/vocab.txt"  # one token a line
MAX_SEQ_LENGTH = "max_seq_length"  # key for the longest sequence in tokens
KEEP = "keep"  # key for the part of a longer text that is kept
LONG_TEXT = "long_text"  # key for the windows of texts
LAYER_NORM_EPS = "layer_norm_eps"  # key for the epsilon of the normalization
PRECISION = "precision"  # key for the type of the weights
TOKENIZER = "tokenizer"  # key for its settings
TEMPERATURE = "temperature"  # key for what divides the logits of classes
# Key for the least probability of the positive class, or those of several labels.
THRESHOLD = "threshold"
SEPARATOR = "separator"  # key for what joins the names of several labels in texts
SCORE_SCALE = "score_scale"  # key for mean and standard deviation of a regression


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
    files.write_record(uris.join(model, FILE), description)


def read_description(model: str) -> dict[str, Any] | None:
    """Returns the description of an exported model; None if it is missing."""
    return files.read_record(uris.join(model, FILE))


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
