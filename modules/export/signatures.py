"""The names of the exported model's signatures, inputs and outputs."""

from __future__ import annotations

from contracts.task.definition import TaskConfig

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


def prediction_output(task: TaskConfig) -> str:
    """Returns the name of the output that a task is evaluated on."""
    return task.label_kind.output
