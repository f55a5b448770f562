"""JSON of strangers: how deep it may be, and how much of it an error quotes."""

import tracemalloc

import pytest

from serving import json_values
from serving.errors import RequestError


def nest(value, depth):
    for _ in range(depth):
        value = [value]
    return value


def test_error_quotes_the_beginning_of_a_value_in_little_memory():
    value = nest([0] * 50_000, 900)
    tracemalloc.start()
    try:
        text = json_values.show(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert text.startswith("[\n    [\n        [")
    assert text.endswith("...")
    assert len(text) < 2000
    assert peak < 1_000_000


def test_small_value_is_quoted_as_a_whole():
    assert json_values.show({"a": [1, "ä"]}) == (
        '{\n    "a": [\n        1,\n        "ä"\n    ]\n}'
    )


def test_document_is_parsed_to_a_fixed_depth():
    body = '{{"instances": {}1{}}}'
    depth = json_values.MAX_DEPTH - 1
    document = json_values.parse(body.format("[" * depth, "]" * depth).encode())
    assert document.keys() == {"instances"}
    for depth in (json_values.MAX_DEPTH, 100_000):
        deeper = body.format("[" * depth, "]" * depth).encode()
        with pytest.raises(RequestError, match="is nested deeper than 40 levels"):
            json_values.parse(deeper)


def test_document_of_too_many_values_is_not_parsed(monkeypatch):
    monkeypatch.setattr(json_values, "MAX_VALUES", 10)
    assert json_values.parse(b'{"a": [1, 2, 3, 4, 5]}')
    with pytest.raises(RequestError, match=r"11 commas and brackets; at most 10"):
        json_values.parse(b'{"a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]}')
    with pytest.raises(RequestError, match=r"has 21 commas and brackets"):
        json_values.parse(b'{"a": [' + b"{}," * 9 + b"{}]}")


def test_message_of_an_error_is_bounded_and_is_text():
    error = RequestError("code", "\ud800" + "x" * 10_000)
    assert error.message.startswith("\\ud800xxx")
    assert len(error.message) < 3000
    assert error.message.encode()
