"""TensorFlow Serving's JSON, which is JSON with NaN and Infinity.

Rules and error messages are those of its REST documentation and of `json_tensor.cc`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

from serving.errors import RequestError, invalid

_B64 = "b64"
# An error message quotes the value that is wrong, which may be the whole request.
_QUOTED_CHARACTERS = 1000
# Deeper than any tensor of NumPy in rows of objects.
MAX_DEPTH = 40
# Values take up to 70 times their JSON in memory, and the parser of Python's standard
# library keeps all threads waiting: 0.3 s for this many.
MAX_VALUES = 2_000_000
_TYPE_NAMES = {
    dict: "Object",
    list: "Array",
    str: "String",
    int: "Number",
    float: "Number",
    type(None): "Null",
}
_TOO_DEEP = (
    f"JSON Parse error: The document is nested deeper than {MAX_DEPTH} levels. Send "
    "tensors of fewer axes"
)
# Python's words and those of RapidJSON, which TensorFlow Serving reads JSON with.
_PARSE_ERRORS = {
    "Expecting value": "Invalid value.",
    "Expecting property name enclosed in double quotes": (
        "Missing a name for object member."
    ),
    "Expecting ':' delimiter": "Missing a colon after a name of object member.",
    "Extra data": "The document root must not be followed by other values.",
    "Unterminated string starting at": "Missing a closing quotation mark in string.",
    "Invalid \\escape": "Invalid escape character in string.",
}


def parse(body: bytes) -> dict[str, Any]:
    """Reads a request.

    Args:
      body: JSON, whose numbers may be NaN, Infinity and -Infinity.

    Returns:
      The object.

    Raises:
      RequestError: It is not JSON, or not an object.
    """
    if not body.strip():
        raise invalid("JSON Parse error: The document is empty")
    _check_size(body)
    try:
        document = json.loads(body)
    except json.JSONDecodeError as error:
        text = _PARSE_ERRORS.get(error.msg, error.msg)
        raise invalid(f"JSON Parse error: {text} at offset: {error.pos}") from error
    except UnicodeDecodeError as error:
        raise invalid(
            f"JSON Parse error: Invalid encoding in string. at offset: {error.start}"
        ) from error
    except ValueError as error:  # of a whole number with thousands of digits
        raise invalid("JSON Parse error: Number too big to be stored.") from error
    except RecursionError as error:
        raise invalid(_TOO_DEEP) from error
    _check_depth(document)
    if not isinstance(document, dict):
        raise malformed(document, "Is not object")
    return document


def _check_size(body: bytes) -> None:
    # More than there are values, since texts have commas too.
    values = sum(map(body.count, (b",", b"[", b"{")))
    if values > MAX_VALUES:
        raise invalid(
            f"The request has {values} commas and brackets; at most {MAX_VALUES} are "
            "allowed. Send its rows in several requests"
        )


def _check_depth(document: Any) -> None:
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [
            value
            for container in level
            for value in _children(container)
            if isinstance(value, list | dict)
        ]
        if not level:
            return
    raise invalid(_TOO_DEEP)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def signature_name(document: dict[str, Any]) -> str:
    """Returns the signature that a request names; empty if it names none.

    Raises:
      RequestError: It is not a string.
    """
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise malformed(
            document,
            "not formatted correctly. 'signature_name' key must be a string value.",
        )
    return name


def malformed(value: Any, problem: str) -> RequestError:
    """Returns an error that quotes a value."""
    return invalid(f"JSON Value: {show(value)} {problem}")


def show(value: Any) -> str:
    """Returns a value as error messages quote it."""
    # In pieces, of which few are made: the whole may be many times the request.
    encoder = json.JSONEncoder(indent=4, ensure_ascii=False)
    text = ""
    for piece in encoder.iterencode(value):
        text += piece[:_QUOTED_CHARACTERS]
        if len(text) > _QUOTED_CHARACTERS:
            return text[:_QUOTED_CHARACTERS] + "..."
    return text


def type_name(value: Any) -> str:
    """Returns RapidJSON's name of a value's type."""
    if isinstance(value, bool):
        return str(value)
    return _TYPE_NAMES[type(value)]


def is_base64(value: Any) -> bool:
    """Tells whether a value is `{"b64": "..."}`."""
    return (
        isinstance(value, dict) and len(value) == 1 and isinstance(value.get(_B64), str)
    )


def decode_base64(value: Any) -> bytes:
    """Returns the bytes of `{"b64": "..."}`.

    Raises:
      RequestError: It is not of that form.
    """
    if not is_base64(value):
        raise malformed(value, "not formatted correctly for base64 data")
    try:
        return base64.b64decode(value[_B64], validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("Unable to base64 decode") from error


def encode_base64(value: bytes) -> dict[str, str]:
    """Returns bytes as `{"b64": "..."}`."""
    return {_B64: base64.b64encode(value).decode()}


def encode_text(value: str) -> bytes:
    """Returns a string as TensorFlow has it.

    Raises:
      RequestError: It has half of a surrogate pair.
    """
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise invalid(
            "JSON Parse error: The surrogate pair in string is invalid."
        ) from error


def check_lossless(value: float, target: str, largest: float, digits: int) -> None:
    """Refuses a number that a floating-point type cannot hold.

    Args:
      value: A number; NaN and infinities pass.
      target: Name of the type.
      largest: Its largest finite number.
      digits: Bits of its significand.

    Raises:
      RequestError: A whole number has too many digits, or a number is too large.
    """
    if isinstance(value, int):
        fits = abs(value) < 1 << digits
    else:
        fits = abs(value) <= largest or value in (float("inf"), float("-inf"))
        fits = fits or value != value
    if not fits:
        raise invalid(
            f"Cannot convert JSON value: {show(value)} to {target} without loss of "
            "precision."
        )
