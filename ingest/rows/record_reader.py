"""Reads the records of an open TFRecord file, and compares their checksums.

`row_file` imports it at the first such file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO

import google_crc32c

from ingest.rows.row_errors import Row

# https://www.tensorflow.org/tutorials/load_data/tfrecord
_HEADER = struct.Struct("<QI")  # length of the record, and its checksum
_CHECKSUM = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
_MOST_BYTES = 1 << 31  # of a serialized protocol buffer


def read_examples(file: IO[bytes]) -> Iterator[tuple[int, Row]]:
    """Yields the number of each record of a TFRecord file from 1, and the record.

    TensorFlow and Beam take a gzip file that is cut between two records for a complete
    one; the gzip module does not.

    Raises:
      ValueError: A record is truncated, or its checksum is wrong.
    """
    number = 0
    while header := file.read(_HEADER.size):
        if len(header) < _HEADER.size:
            raise ValueError("the record is truncated")
        length, checksum = _HEADER.unpack(header)
        if not _is_intact(header[: -_CHECKSUM.size], checksum):
            raise ValueError("the checksum of the record's length is wrong")
        if length > _MOST_BYTES:
            raise ValueError(f"the record has {length} bytes; at most 2 GiB are read")
        content = file.read(length + _CHECKSUM.size)
        if len(content) < length + _CHECKSUM.size:
            raise ValueError("the record is truncated")
        record = content[:length]
        if not _is_intact(record, *_CHECKSUM.unpack(content[length:])):
            raise ValueError("the checksum of the record's content is wrong")
        number += 1
        yield number, record


def _is_intact(content: bytes, checksum: int) -> bool:
    """Returns whether a masked CRC-32C is that of the content."""
    crc = google_crc32c.value(content)
    return (crc >> 15 | crc << 17) + _MASK_DELTA & 0xFFFFFFFF == checksum
