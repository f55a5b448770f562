"""Serialized `tf.Example`s and the rows that they contain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ingest.rows.row_errors import RowError

if TYPE_CHECKING:
    from tensorflow.core.example.example_pb2 import Example


def parse(serialized: bytes) -> Example:
    """Parses a serialized Example.

    Raises:
      RowError: The bytes are not an Example.
    """
    # Every command imports this file, and `--help` must not wait for TensorFlow.
    from google.protobuf.message import DecodeError
    from tensorflow.core.example.example_pb2 import Example

    try:
        return Example.FromString(serialized)
    except DecodeError as error:
        raise RowError(f"not a tf.Example: {error}") from error


def decode_text(name: str, value: bytes) -> str:
    """Decodes a value of a bytes feature.

    Raises:
      RowError: The value is not UTF-8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RowError(f"feature {name} is not UTF-8: {error}") from error


def to_row(serialized: bytes) -> dict[str, Any]:
    """Returns an Example's features as values: text, numbers, or lists of either.

    Raises:
      RowError: The bytes are not an Example, or a bytes feature is not UTF-8.
    """
    row: dict[str, Any] = {}
    for name, feature in sorted(parse(serialized).features.feature.items()):
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        if kind == "bytes_list":
            values = [decode_text(name, value) for value in values]
        row[name] = values[0] if len(values) == 1 else values or None
    return row


def from_row(row: Mapping[str, Any], serialized: bytes = b"") -> bytes:
    """Returns a serialized Example with a row's values as features.

    Args:
      row: Text, numbers, or lists of either; None is left out.
      serialized: An Example whose other features are kept.

    Raises:
      RowError: A value has another type.
    """
    example = parse(serialized)
    features = example.features.feature
    for name, value in row.items():
        features.pop(name, None)
        if value is not None:
            values = value if isinstance(value, list) else [value]
            kind, encoded = _encode(name, values)
            getattr(features[name], kind).value.extend(encoded)
    return bytes(example.SerializeToString())


def _encode(name: str, values: list[Any]) -> tuple[str, list[Any]]:
    try:
        if all(isinstance(value, bytes) for value in values):
            return "bytes_list", values
        if all(isinstance(value, str) for value in values):
            return "bytes_list", [value.encode() for value in values]
        if all(isinstance(value, int) and abs(value) < 1 << 63 for value in values):
            return "int64_list", [int(value) for value in values]
        if all(isinstance(value, int | float) for value in values):
            return "float_list", [float(value) for value in values]
    except (UnicodeEncodeError, OverflowError) as error:
        raise RowError(f"column {name}: {error}") from error
    raise RowError(
        f"column {name} is {str(values)[:80]}, which a tf.Example cannot hold; use "
        "another `output_format`"
    )
