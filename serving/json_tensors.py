"""Tensors of the predict API: rows or columns of JSON in, the same out.

Rules and error messages are those of TensorFlow Serving's REST documentation and of
its `json_tensor.cc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np

from serving import json_values
from serving.errors import RequestError, check_rows, invalid
from serving.signatures import Tensors, TensorSpec

INSTANCES = "instances"
INPUTS = "inputs"
_PREDICTIONS = "predictions"
_OUTPUTS = "outputs"
_BINARY_SUFFIX = "_bytes"
_MAX_RANK = 31  # NumPy 1's, less the axis of the rows

Specs = Mapping[str, TensorSpec]


def read_inputs(document: dict[str, Any], specs: Specs, max_rows: int) -> Tensors:
    """Reads the tensors of a request.

    Args:
      document: The request, with `instances` (rows) or `inputs` (columns).
      specs: What the signature takes.
      max_rows: Rows, or values of a column, that are allowed.

    Returns:
      Tensors by name, of the signature's types. Their shapes are not checked.

    Raises:
      RequestError: Neither or both are there, there are too many rows, or a value is
        not of its type.
    """
    if INSTANCES in document and INPUTS in document:
        raise json_values.malformed(
            document,
            f"Not formatted correctly expecting only one of '{INPUTS}' or "
            f"'{INSTANCES}' keys to exist ",
        )
    if INSTANCES in document:
        rows = document[INSTANCES]
        if not isinstance(rows, list):
            raise json_values.malformed(
                document, f"Excepting '{INSTANCES}' to be an list/array"
            )
        if not rows:
            raise json_values.malformed(document, f"No values in '{INSTANCES}' array")
        check_rows(len(rows), max_rows)
        return _read_rows(rows, specs)
    if INPUTS in document:
        columns = document[INPUTS]
        for column in columns.values() if isinstance(columns, dict) else [columns]:
            check_rows(len(column) if isinstance(column, list) else 1, max_rows)
        return _read_columns(columns, specs)
    raise invalid(f"Missing '{INPUTS}' or '{INSTANCES}' key")


def write_rows(outputs: Tensors) -> dict[str, Any]:
    """Returns the answer to a request in rows.

    Raises:
      RequestError: The outputs have not all as many rows.
    """
    rows: int | None = None
    for name, tensor in outputs.items():
        if not tensor.shape:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if rows not in (None, len(tensor)):
            raise invalid(
                f"Tensor name: {name} has inconsistent batch size: {len(tensor)} "
                f"expecting: {rows}"
            )
        rows = len(tensor)
    columns = {name: to_json(name, tensor) for name, tensor in outputs.items()}
    if len(columns) == 1:
        return {_PREDICTIONS: next(iter(columns.values()))}
    return {
        _PREDICTIONS: [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
    }


def write_columns(outputs: Tensors) -> dict[str, Any]:
    """Returns the answer to a request in columns."""
    columns = {name: to_json(name, tensor) for name, tensor in outputs.items()}
    if len(columns) == 1:
        return {_OUTPUTS: next(iter(columns.values()))}
    return {_OUTPUTS: columns}


def to_json(name: str, tensor: np.ndarray) -> Any:
    """Returns a tensor as JSON has it.

    Args:
      name: Of the output; strings are given in base 64 if it ends in `_bytes`.
      tensor: The output.

    Raises:
      RequestError: A string is not UTF-8.
    """
    if tensor.dtype == object:
        return _map_leaves(tensor.tolist(), name)
    if np.issubdtype(tensor.dtype, np.integer) or tensor.dtype == bool:
        return tensor.tolist()
    # By way of the shortest text that is read as the same number: 0.2 of 32 bits is
    # 0.20000000298 of 64.
    if tensor.dtype == np.float64:
        return tensor.tolist()
    if tensor.dtype != np.float16:
        tensor = tensor.astype(np.float32)  # of bfloat16, which NumPy cannot write
    return tensor.astype("U").astype(np.float64).tolist()


def _map_leaves(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_map_leaves(each, name) for each in value]
    if name.endswith(_BINARY_SUFFIX):
        return json_values.encode_base64(value)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise invalid(
            f"Output {name} is not UTF-8; the name of a binary output must end in "
            f"{_BINARY_SUFFIX}"
        ) from error


def _read_rows(rows: list[Any], specs: Specs) -> Tensors:
    if len(specs) > 1 and not isinstance(rows[0], dict):
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map"
        )
    if not _is_object(rows[0]):
        return {name: _read_plain_rows(rows, spec) for name, spec in specs.items()}
    columns: dict[str, list[np.ndarray]] = {name: [] for name in specs}
    for index, row in enumerate(rows):
        if not _is_object(row):
            raise invalid(
                f"Expecting object but got list at item {index} of input list"
            )
        for name, value in row.items():
            where = f"element: {index} key: {name}"
            if name not in specs:
                raise _bad_row(where, f"JSON object: does not have named input: {name}")
            _add(columns[name], value, specs[name], where)
        if row.keys() != specs.keys():
            raise invalid(
                f"Failed to process element: {index} of 'instances' list. JSON object: "
                f"{json_values.show(row)} keys must be equal to: {','.join(specs)}"
            )
    return {name: np.stack(column) for name, column in columns.items()}


def _read_plain_rows(rows: list[Any], spec: TensorSpec) -> np.ndarray:
    column: list[np.ndarray] = []
    for index, row in enumerate(rows):
        if _is_object(row):
            raise invalid(
                f"Expecting value/list but got object at item {index} of input list"
            )
        _add(column, row, spec, f"element: {index}")
    return np.stack(column)


def _add(column: list[np.ndarray], value: Any, spec: TensorSpec, where: str) -> None:
    try:
        tensor = _read_tensor(value, spec)
    except RequestError as error:
        raise _bad_row(where, error.message) from error
    if column and column[0].size != tensor.size:
        raise _bad_row(
            where, f"Expecting tensor size: {column[0].size} but got: {tensor.size}"
        )
    if column and column[0].shape != tensor.shape:
        shapes = (f"[{','.join(map(str, t.shape))}]" for t in (column[0], tensor))
        raise _bad_row(where, "Expecting shape {} but got: {}".format(*shapes))
    column.append(tensor)


def _bad_row(where: str, problem: str) -> RequestError:
    return invalid(
        f"Failed to process {where} of 'instances' list. Error: INVALID_ARGUMENT: "
        f"{problem}"
    )


def _read_columns(value: Any, specs: Specs) -> Tensors:
    if _is_object(value):
        for name in specs:
            if name not in value:
                raise invalid(f"Missing named input: {name} in 'inputs' object.")
        return {name: _read_tensor(value[name], spec) for name, spec in specs.items()}
    if len(specs) > 1:
        raise invalid(
            "inputs is a plain value/list, but expecting an object as multiple input "
            "tensors required as per tensorinfo_map"
        )
    return {name: _read_tensor(value, spec) for name, spec in specs.items()}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not json_values.is_base64(value)


def _read_tensor(value: Any, spec: TensorSpec) -> np.ndarray:
    shape = _shape_of(value)
    leaves: list[Any] = []
    _flatten(value, 0, shape, leaves)
    tensor = np.empty(len(leaves), spec.dtype)
    tensor[:] = [_read_leaf(leaf, spec) for leaf in leaves]
    return tensor.reshape(shape)


def _shape_of(value: Any) -> tuple[int, ...]:
    shape: list[int] = []
    while isinstance(value, list):
        shape.append(len(value))
        if len(shape) > _MAX_RANK:
            raise invalid(f"A tensor has at most {_MAX_RANK} dimensions")
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _flatten(value: Any, level: int, shape: tuple[int, ...], leaves: list[Any]) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise json_values.malformed(
                value,
                f"found at incorrect level: {level + 1} in the JSON DOM. Expected at "
                f"level: {len(shape)}",
            )
        leaves.append(value)
        return
    if level >= len(shape):
        raise invalid(
            f"Encountered list at unexpected level: {level} expected < {len(shape)}"
        )
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for each in value:
        _flatten(each, level + 1, shape, leaves)


def _read_leaf(value: Any, spec: TensorSpec) -> Any:
    kind = spec.dtype.kind
    if kind == "O":
        if isinstance(value, dict):
            return json_values.decode_base64(value)
        if isinstance(value, str):
            return json_values.encode_text(value)
    elif kind == "b":
        if isinstance(value, bool):
            return value
    elif kind in "iu":
        limits = np.iinfo(spec.dtype)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and limits.min <= value <= limits.max:
            return value
    elif spec.dtype in (np.float32, np.float64):
        if isinstance(value, int | float) and not isinstance(value, bool):
            limit = np.finfo(spec.dtype)
            json_values.check_lossless(
                value, spec.type_name, float(limit.max), limit.nmant + 1
            )
            return value
    else:
        raise RequestError(
            grpc.StatusCode.UNIMPLEMENTED,
            f"Conversion of JSON Value: {json_values.show(value)} to type: "
            f"{spec.type_name}",
        )
    raise invalid(
        f"JSON Value: {json_values.show(value)} Type: {json_values.type_name(value)} "
        f"is not of expected type: {spec.type_name}"
    )
