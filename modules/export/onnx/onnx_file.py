"""Writes a graph as an ONNX file, without the package `onnx`.

An ONNX file is a protocol buffer, `onnx.proto` of https://github.com/onnx/onnx. The
package would bring its own ml-dtypes, which TensorFlow 2.16 does not take.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

_IR_VERSION = 8  # of the format, ONNX 1.12
OPSET = 17  # the first with LayerNormalization, ONNX 1.12
_VARINT, _BYTES, _FLOAT = 0, 2, 5  # wire types
# `TensorProto.DataType`
_DATA_TYPES = {
    np.dtype(np.float32): 1,
    np.dtype(np.int8): 3,
    np.dtype(np.int64): 7,
}
_FLOAT_TYPE, _INT64_TYPE = _DATA_TYPES[np.dtype(np.float32)], 7

# A message as pieces, so that weights are not copied.
_Message = list[bytes | memoryview]
Attribute = float | int | list[int]


class Graph:
    """A graph of ONNX operators, whose values are named by their nodes."""

    def __init__(self) -> None:
        self._nodes: list[_Message] = []
        self._constants: list[_Message] = []
        self._names: set[str] = set()

    def constant(self, name: str, value: np.ndarray) -> str:
        """Adds a constant; returns its name. A known name is not added again."""
        if name not in self._names:
            self._names.add(name)
            value = np.ascontiguousarray(value)
            data = value.reshape(-1).view(np.uint8).data
            self._constants.append(
                _message(
                    *((1, size) for size in value.shape),
                    (2, _DATA_TYPES[value.dtype]),
                    (8, name),
                    (9, [data]),
                )
            )
        return name

    def add(self, operator: str, *inputs: str, **attributes: Attribute) -> str:
        """Adds a node with one output; returns the output's name."""
        return self.add_node(operator, inputs, 1, attributes)[0]

    def add_node(
        self,
        operator: str,
        inputs: Iterable[str],
        outputs: int,
        attributes: Mapping[str, Attribute],
    ) -> list[str]:
        """Adds a node; returns the names of its outputs."""
        node = f"{operator}_{len(self._nodes)}"
        names = [f"{node}:{index}" for index in range(outputs)]
        self._nodes.append(
            _message(
                *((1, name) for name in inputs),
                *((2, name) for name in names),
                (3, node),
                (4, operator),
                *((5, _attribute(name, v)) for name, v in attributes.items()),
            )
        )
        return names

    def write(
        self,
        path: Path,
        name: str,
        inputs: Mapping[str, Sequence[str | int]],
        outputs: Mapping[str, tuple[str, Sequence[str | int]]],
    ) -> None:
        """Writes the file.

        Args:
          path: The file.
          name: Name of the graph.
          inputs: The dimensions of each int64 input; a dynamic one is a name.
          outputs: The value and the dimensions of each float32 output.
        """
        for output, (value, _) in outputs.items():
            self._nodes.append(
                _message((1, value), (2, output), (3, output), (4, "Identity"))
            )
        graph = _message(
            *((1, node) for node in self._nodes),
            (2, name),
            *((5, constant) for constant in self._constants),
            *((11, _value(n, _INT64_TYPE, shape)) for n, shape in inputs.items()),
            *((12, _value(n, _FLOAT_TYPE, s)) for n, (_, s) in outputs.items()),
        )
        model = _message(
            (1, _IR_VERSION),
            (2, "bert-fine-tuning-pipeline"),
            (7, graph),
            (8, _message((1, ""), (2, OPSET))),
        )
        with path.open("wb") as file:
            file.writelines(model)


def _attribute(name: str, value: Attribute) -> _Message:
    if isinstance(value, float):
        return _message((1, name), (2, value), (20, 1))
    if isinstance(value, int):
        return _message((1, name), (3, value), (20, 2))
    return _message((1, name), *((8, item) for item in value), (20, 7))


def _value(name: str, data_type: int, shape: Sequence[str | int]) -> _Message:
    dimensions = [_message((1 if isinstance(d, int) else 2, d)) for d in shape]
    tensor = _message((1, data_type), (2, _message(*((1, d) for d in dimensions))))
    return _message((1, name), (2, _message((1, tensor))))


def _message(*fields: tuple[int, int | float | str | _Message]) -> _Message:
    """Encodes a message from the number and the value of each field."""
    pieces: _Message = []
    for number, value in fields:
        if isinstance(value, int):
            # As two's complement of 64 bits.
            pieces.append(_varint(number << 3 | _VARINT) + _varint(value % (1 << 64)))
        elif isinstance(value, float):
            pieces.append(_varint(number << 3 | _FLOAT) + struct.pack("<f", value))
        else:
            content = [value.encode()] if isinstance(value, str) else value
            size = sum(map(len, content))
            pieces.append(_varint(number << 3 | _BYTES) + _varint(size))
            pieces += content
    return pieces


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
