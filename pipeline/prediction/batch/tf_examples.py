"""Serialized `tf.Example`s: what a model wants in them, and what is put there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pipeline.prediction.batch.rows import RowError

_KINDS = {"string": "bytes_list", "int64": "int64_list", "float32": "float_list"}


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature that `serve_examples` reads.

    Attributes:
      dtype: `string`, `int64` or `float32`.
      size: The number of its values; None where any number but 0 is.
    """

    dtype: str
    size: int | None = None


def check_features(serialized: bytes, wanted: Mapping[str, Feature]) -> None:
    """Refuses an Example that the model cannot read, or would read as empty.

    Args:
      serialized: The Example.
      wanted: The model's features by name.

    Raises:
      RowError: It is no Example, or a feature is missing, of another type, of
        another size or no UTF-8.
    """
    features = _parse(serialized).features.feature
    for name, feature in wanted.items():
        if name not in features:
            raise RowError(
                f"no feature {name}; the model wants {', '.join(wanted)}, the Example "
                f"has {', '.join(sorted(features)) or 'none'}"
            )
        values = getattr(features[name], _KINDS[feature.dtype]).value
        if not values or feature.size not in (None, len(values)):
            number = feature.size or "one or more"
            raise RowError(
                f"feature {name} has {len(values)} values of {feature.dtype}; the "
                f"model wants {number}"
            )
        if feature.dtype == "string":
            for value in values:
                _decode(name, value)


def to_row(serialized: bytes) -> dict[str, Any]:
    """Returns an Example's features as values: text, numbers, or lists of either.

    Raises:
      RowError: A feature is bytes that are no UTF-8.
    """
    row: dict[str, Any] = {}
    for name, feature in sorted(_parse(serialized).features.feature.items()):
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        if kind == "bytes_list":
            values = [_decode(name, value) for value in values]
        row[name] = values[0] if len(values) == 1 else values or None
    return row


def from_row(row: Mapping[str, Any], serialized: bytes = b"") -> bytes:
    """Returns a serialized Example with a row's values as features.

    Args:
      row: Text, numbers, or lists of either; None is left out.
      serialized: An Example whose other features are kept.

    Raises:
      RowError: A value is something else.
    """
    example = _parse(serialized)
    for name, value in row.items():
        example.features.feature[name].Clear()
        if value is None:
            del example.features.feature[name]
            continue
        values = value if isinstance(value, list) else [value]
        kind, plain = _plain(name, values)
        getattr(example.features.feature[name], kind).value.extend(plain)
    return bytes(example.SerializeToString())


def _plain(name: str, values: list[Any]) -> tuple[str, list[Any]]:
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
        f"column {name} is {str(values)[:80]}, which a tf.Example cannot hold; take "
        "another --output-format"
    )


def _parse(serialized: bytes) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.core.example import example_pb2

    try:
        return example_pb2.Example.FromString(serialized)
    except DecodeError as error:
        raise RowError(f"not a tf.Example: {error}") from error


def _decode(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RowError(f"feature {name} is not UTF-8: {error}") from error
