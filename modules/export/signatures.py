"""The names of the exported model's signatures, inputs and outputs."""

from __future__ import annotations

from typing import Any

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


def describe_requests(task: TaskConfig) -> dict[str, Any]:
    """Describes the requests that the exported model takes.

    Args:
      task: Names the text columns.
    """
    return {
        "text_columns": task.text_columns,
        "text_signature": SERVING_DEFAULT,
        "examples_signature": SERVE_EXAMPLES,
        "examples_input": EXAMPLES,
        # Tokenized Examples hold no text to send.
        "has_text": not task.is_tokenized,
    }
