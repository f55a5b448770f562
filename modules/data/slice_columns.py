"""The values of the columns that an evaluation is sliced by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow.core.example.example_pb2 import Example

MISSING = "(missing)"  # the slice of rows without a value


def read_value(example: Example, column: str) -> str:
    """Returns the value of a column as the name of a slice."""
    feature = example.features.feature[column]
    kind = feature.WhichOneof("kind")
    values = getattr(feature, kind).value if kind else ()
    return ", ".join(map(_name, values)) or MISSING


def _name(value: bytes | float) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    # Examples hold float32.
    return f"{value:.7g}" if isinstance(value, float) else str(value)
