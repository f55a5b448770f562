"""Reads predict requests in TensorFlow Serving's JSON, which allows NaN and Infinity.

The format: https://www.tensorflow.org/tfx/serving/api_rest#predict_api
"""

from __future__ import annotations

import base64
import json
import math
import re
import string
from collections.abc import Mapping
from typing import Any

import numpy as np

from serving.errors import Code, RequestError, check_rows, invalid
from serving.signatures import DEFAULT_SIGNATURE, Tensors, TensorSpec

INSTANCES = "instances"
INPUTS = "inputs"
# A row with a tensor of 32 axes, the maximum of NumPy 1, is allowed.
MAX_DEPTH = 40
# Values take up to 70 times their JSON in memory, and Python's parser holds the global
# interpreter lock: 0.3 s for this many.
MAX_VALUES = 2_000_000
_TOO_DEEP = {
    "got": "the request is nested too deeply",
    "allowed": f"at most {MAX_DEPTH} levels",
    "advice": "send tensors of fewer axes",
}

Specs = Mapping[str, TensorSpec]


def parse(body: bytes) -> dict[str, Any]:
    """Parses a request.

    Args:
      body: JSON, whose numbers may be NaN, Infinity and -Infinity.

    Returns:
      The object.

    Raises:
      RequestError: The body is not JSON, not an object, too deep or too large.
    """
    # An upper bound of the number of values: strings have commas too.
    values = sum(map(body.count, (b",", b"[", b"{")))
    if values > MAX_VALUES:
        raise invalid(
            got=f"the request has {values} commas and brackets",
            allowed=f"at most {MAX_VALUES}",
            advice="send its rows in several requests",
        )
    try:
        document = json.loads(body)
    except RecursionError as error:
        raise invalid(**_TOO_DEEP) from error
    except ValueError as error:
        raise invalid(got=f"the request is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise invalid(got="the request is not a JSON object")
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, list | dict)
        ]
        if not level:
            return document
    raise invalid(**_TOO_DEEP)


def signature_name(document: dict[str, Any]) -> str:
    """Returns the signature that a request names, or the default.

    Raises:
      RequestError: The name is not a string.
    """
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid("signature_name", _quote(name), "a string")
    return name or DEFAULT_SIGNATURE


def read_inputs(document: dict[str, Any], specs: Specs, max_rows: int) -> Tensors:
    """Reads the tensors of a request.

    Args:
      document: The request, with `instances` (rows) or `inputs` (columns).
      specs: The inputs of the signature.
      max_rows: Rows, or values of a column, that are allowed.

    Returns:
      Tensors by name, of the signature's types. Their shapes are not checked.

    Raises:
      RequestError: The request has neither or both keys, too many rows, or a value that
        is invalid for its input.
    """
    if (INSTANCES in document) == (INPUTS in document):
        raise invalid(
            advice=f"send either `{INSTANCES}` (rows) or `{INPUTS}` (columns)"
        )
    if INSTANCES in document:
        columns = _transpose(document[INSTANCES], specs, max_rows)
    else:
        columns = _select_columns(document[INPUTS], specs, max_rows)
    tensors = {}
    for name, spec in specs.items():
        # NumPy leaves lists of different lengths, or of too many axes, as elements.
        values = np.array(columns[name], dtype=object)
        tensor = np.empty(values.size, spec.dtype)
        tensor[:] = [_convert(name, element, spec) for element in values.ravel()]
        tensors[name] = tensor.reshape(values.shape)
    return tensors


def _transpose(rows: Any, specs: Specs, max_rows: int) -> dict[str, list[Any]]:
    if not isinstance(rows, list) or not rows:
        raise invalid(INSTANCES, allowed="a list of at least one row")
    check_rows(len(rows), max_rows)
    if len(specs) == 1 and not any(map(_is_object, rows)):
        return dict.fromkeys(specs, rows)
    for index, row in enumerate(rows):
        if not _is_object(row) or row.keys() != specs.keys():
            names = ", ".join(specs)
            raise invalid(
                f"{INSTANCES}[{index}]", allowed=f"an object with the inputs {names}"
            )
    return {name: [row[name] for row in rows] for name in specs}


def _select_columns(inputs: Any, specs: Specs, max_rows: int) -> dict[str, Any]:
    if len(specs) == 1 and not _is_object(inputs):
        columns = dict.fromkeys(specs, inputs)
    elif _is_object(inputs) and specs.keys() <= inputs.keys():
        columns = inputs
    else:
        names = ", ".join(specs)
        raise invalid(INPUTS, allowed=f"an object with the inputs {names}")
    for column in columns.values():
        check_rows(len(column) if isinstance(column, list) else 1, max_rows)
    return columns


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value: Any) -> bool:
    """Returns whether a value is `{"b64": "..."}`."""
    return (
        isinstance(value, dict)
        and value.keys() == {"b64"}
        and isinstance(value["b64"], str)
    )


def _convert(name: str, value: Any, spec: TensorSpec) -> Any:
    if isinstance(value, list):
        raise invalid(name, "lists of different lengths or depths, or too many axes")
    kind = spec.dtype.kind
    if kind == "O":
        is_valid = isinstance(value, str) or _is_base64(value)
    elif kind == "b":
        is_valid = isinstance(value, bool)
    elif kind in "iu":
        integers = np.iinfo(spec.dtype)
        is_valid = _is_integer(value) and integers.min <= value <= integers.max
    elif kind == "f":
        floats = np.finfo(spec.dtype)
        if _is_integer(value):
            # A larger integer may change its value as a floating-point number.
            is_valid = abs(value) < 2 << floats.nmant
        else:
            is_valid = isinstance(value, float) and (
                not math.isfinite(value) or abs(value) <= float(floats.max)
            )
    else:
        raise RequestError(
            Code.UNIMPLEMENTED,
            name,
            f"its type is {spec.type_name}",
            advice="send it over gRPC",
        )
    if not is_valid:
        raise invalid(name, _quote(value), f"a valid {spec.type_name}")
    if kind != "O":
        return value
    try:
        if isinstance(value, str):
            return value.encode()
        return _decode_base64(value["b64"])
    except ValueError as error:  # an unpaired surrogate, or not in base64
        raise invalid(name, f"{_quote(value)}: {error}") from error


def _decode_base64(text: str) -> bytes:
    """Decodes base64 as `absl::Base64Unescape`, which TensorFlow Serving calls.

    It ignores white space. The padding may be missing, and may be dots.
    """
    data = text.encode().translate(None, string.whitespace.encode())
    digits = data.rstrip(b"=.")
    padding = -len(digits) % 4
    if (
        not re.fullmatch(rb"[A-Za-z0-9+/]*", digits)
        or padding == 3
        or len(data) - len(digits) not in (0, padding)
    ):
        raise ValueError(
            f'"b64" is {_quote(text)}, which is not base64 of the alphabet A-Z, a-z, '
            "0-9, + and /, with complete padding or without"
        )
    return base64.b64decode(digits + b"=" * padding)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _quote(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value[:100] if isinstance(value, str) else value)
