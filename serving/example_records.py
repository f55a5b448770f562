"""`tf.train.Example` and the records of a TFRecord file, without TensorFlow.

The encoding of protocol buffers is in https://protobuf.dev/programming-guides/encoding/,
that of the files in TensorFlow's `tensorflow/core/lib/io/record_writer.h`.
"""

from __future__ import annotations

import array
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import google_crc32c

FRAME_BYTES = 16
"""Bytes of a record besides its content."""

_CRC_MASK_DELTA = 0xA282EAD8
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3  # fields of a feature


def encode_example(row: Mapping[str, Any]) -> bytes:
    """Returns a row as a serialized Example, with its features sorted by name.

    Args:
      row: A value, or a list of values, by the name of the feature: text, bytes,
        integers of 64 bits or other numbers.

    Raises:
      Exception: A value has another type.
    """
    features = {name.encode(): _encode_feature(value) for name, value in row.items()}
    entries = (
        _field(1, _field(1, name) + _field(2, feature))
        for name, feature in sorted(features.items())
    )
    return _field(1, b"".join(entries))


def encode_record(content: bytes) -> bytes:
    """Returns a record of a TFRecord file: its length and content with checksums."""
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _encode_feature(value: Any) -> bytes:
    values = list(value) if isinstance(value, list | tuple) else [value]
    if all(isinstance(item, str | bytes) for item in values):
        return _field(_BYTES_LIST, b"".join(_field(1, _bytes(v)) for v in values))
    if all(isinstance(item, int) for item in values):
        return _field(_INT64_LIST, _field(1, b"".join(map(_int64, values))))
    return _field(_FLOAT_LIST, _field(1, _floats(values)))


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "replace") if isinstance(value, str) else value


def _int64(value: int) -> bytes:
    # Negative numbers as their two's complement.
    return _varint(int.from_bytes(value.to_bytes(8, "little", signed=True), "little"))


def _floats(values: Sequence[Any]) -> bytes:
    floats = array.array("f", values)  # infinity, as in TensorFlow, if one is too large
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of a known length, which bytes and messages are."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _checksum(content: bytes) -> bytes:
    crc: int = google_crc32c.value(content)
    masked = ((crc >> 15 | crc << 17) + _CRC_MASK_DELTA) & 0xFFFFFFFF
    return struct.pack("<I", masked)
