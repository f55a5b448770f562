"""Writes the outputs of a signature as TensorFlow Serving's JSON."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from serving.errors import invalid
from serving.signatures import Tensors

BINARY_SUFFIX = "_bytes"


def write_rows(outputs: Tensors) -> dict[str, Any]:
    """Returns the response to a request in rows.

    Raises:
      RequestError: The outputs have different numbers of rows, or one has no rows.
    """
    rows = {tensor.shape[:1] for tensor in outputs.values()}
    if len(rows) != 1 or () in rows:
        raise invalid(
            got="the outputs have no rows, or different numbers of rows: "
            + ", ".join(f"{name} {list(t.shape)}" for name, t in outputs.items()),
            advice="send `inputs` instead of `instances`",
        )
    columns = {name: to_json(name, tensor) for name, tensor in outputs.items()}
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    return {
        "predictions": [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
    }


def write_columns(outputs: Tensors) -> dict[str, Any]:
    """Returns the response to a request in columns."""
    columns = {name: to_json(name, tensor) for name, tensor in outputs.items()}
    if len(columns) == 1:
        return {"outputs": next(iter(columns.values()))}
    return {"outputs": columns}


def to_json(name: str, tensor: np.ndarray) -> Any:
    """Returns a tensor as nested lists.

    Args:
      name: The output; its strings are in base64 if it ends in `_bytes`.
      tensor: The output's value. Masked strings and integers are None.

    Raises:
      RequestError: A string is not UTF-8.
    """
    if tensor.dtype == object:
        strings = np.empty(tensor.size, object)
        strings[:] = [
            None if value is np.ma.masked else _decode(name, value)
            for value in tensor.ravel()
        ]
        return strings.reshape(tensor.shape).tolist()
    if tensor.dtype == np.float64 or tensor.dtype.kind in "iub":
        return tensor.tolist()
    if tensor.dtype != np.float16:
        tensor = tensor.astype(np.float32)  # NumPy cannot write bfloat16
    # The shortest decimal that reads back as the same number: 0.2 in 32 bits is
    # 0.20000000298 in 64.
    return tensor.astype("U").astype(np.float64).tolist()


def _decode(name: str, value: bytes) -> Any:
    if name.endswith(BINARY_SUFFIX):
        return {"b64": base64.b64encode(value).decode()}
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise invalid(
            got=f"the output {name} is not UTF-8",
            allowed=f"binary outputs whose names end in {BINARY_SUFFIX}",
        ) from error
