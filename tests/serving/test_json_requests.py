"""JSON requests: what is refused, and how large a request may be."""

import json
import tracemalloc

import pytest

from serving import json_requests
from serving.errors import RequestError
from tests.serving.conftest import check_refused

PREDICT = "/v1/models/half_plus_three:predict"
ROW = {"text": "a", "numbers": [1, 2], "count": 1}


def nest(value, depth):
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", "the request is not JSON: Expecting value"),
        ('{"instances": [1.0, }', "Expecting value: line 1 column 21"),
        ("{} {}", "the request is not JSON: Extra data"),
        ("[" * 100_000, "at most 40 levels"),
        (b'{"instances": ["\xff"]}', "the request is not JSON: 'utf-8' codec"),
        ('{"instances": [' + "9" * 5000 + "]}", "the request is not JSON: Exceeds"),
        ("[1]", "not a JSON object"),
        ("1", "not a JSON object"),
        ("{}", 'send either "instances" (rows) or "inputs" (columns)'),
        ('{"instances": [1], "inputs": [1]}', 'send either "instances"'),
        ('{"instances": 1}', '"instances"; allowed: a list of at least one row'),
        ('{"instances": []}', '"instances"; allowed: a list of at least one row'),
        ('{"signature_name": 5}', '"signature_name": 5; allowed: a string'),
        ('{"signature_name": "none", "instances": [1]}', '"none" not found; allowed: '),
        ('{"instances": [1, "x"]}', '"x": "x"; allowed: a valid float32'),
        ('{"instances": [true]}', '"x": true; allowed: a valid '),
        ('{"instances": [null]}', '"x": null; allowed: a valid '),
        ('{"instances": [{"b64": "YQ=="}]}', '"x": an object; allowed: a valid '),
        ('{"instances": [[1], 2]}', "lists of different lengths or depths"),
        ('{"instances": [[1], [2, 3]]}', "lists of different lengths or depths"),
        ('{"instances": [{"x": 1}, 2]}', '"instances[1]"; allowed: an object with the'),
        ('{"instances": [2, {"x": 1}]}', '"instances[0]"; allowed: an object with the'),
        ('{"instances": [{"z": 1}]}', "allowed: an object with the inputs x"),
        ('{"instances": [{"x": 1, "z": 1}]}', "allowed: an object with the inputs x"),
        ('{"instances": [{}]}', "allowed: an object with the inputs x"),
        ('{"inputs": {"z": [1]}}', '"inputs"; allowed: an object with the inputs x'),
        ('{"inputs": [[1], [2, 3]]}', "lists of different lengths or depths"),
        ('{"inputs": [[1], 2]}', "lists of different lengths or depths"),
        ('{"inputs": [1, [2]]}', "lists of different lengths or depths"),
        ('{"instances": [16777217]}', ": 16777217; allowed: a valid float32"),
        ('{"instances": [1e39]}', ": 1e+39; allowed: a valid float32"),
        ('{"instances": [[1.0]]}', "the request has float32[1,1]; allowed: float32[?]"),
        ('{"inputs": 1.0}', "the request has float32[]; allowed: float32[?]"),
        (r'{"signature_name": "\ud800", "instances": [1]}', "not found; allowed: "),
        (r'{"instances": ["\ud800"]}', "allowed: a valid float32"),
        (r'{"instances": [{"\ud800": 1}]}', "allowed: an object with the inputs x"),
        (r'{"signature_name": "parse", "instances": ["\ud800"]}', "surrogates not all"),
    ],
)
def test_malformed_request_is_refused(half_plus_three, body, error):
    check_refused(half_plus_three.http.post(PREDICT, content=body), error)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        *[
            ({"b64": encoded}, f'an object: "b64" is {json.dumps(encoded)}, which is')
            # As absl::Base64Unescape, which TensorFlow Serving calls.
            for encoded in (
                *("?", "Y", "YWJjZ", "=", "YQ=", "YQ===", "YWI==", "YWJj=", "YQ==YQ=="),
                *("Y=Q=", "Y-_z", "YQ\0", "YQ\xa0", "YQ\x1c", "äA=="),
            )
        ],
        ({"base64": "YQ=="}, "an object; allowed: a valid string"),
        (1, "1; allowed: a valid string"),
    ],
)
def test_malformed_string_is_refused(types, text, error):
    inputs = {"text": [text], "numbers": [[1, 2]], "count": [1]}
    content = json.dumps({"inputs": inputs})
    response = types.http.post("/v1/models/types:predict", content=content)
    check_refused(response, f'"text": {error}')


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        *[(encoded, "a") for encoded in ("YQ==", "YQ", "YQ..", "YR==", " Y\tQ\v= =\f")],
        *[(encoded, "ab") for encoded in ("YWI=", "YWI", "YWI.", "Y\r\nWI\r\n")],
        *[(encoded, "abc") for encoded in ("YWJj", "YWJj\n", "YW\nJj")],
        *[(encoded, "") for encoded in ("", "\n")],
        ("YWJj\n" * 1000, "abc" * 1000),
    ],
)
def test_base64_is_what_tensorflow_serving_takes(types, encoded, text):
    row = {**ROW, "text": {"b64": encoded}}
    response = types.post("types:predict", instances=[row])
    assert response.json()["predictions"][0]["text"] == text


SMALL = {"flag": True, "byte": 255}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        *(
            ({"instances": [{**ROW, "count": count}]}, "allowed: a valid int64")
            for count in (1.5, 2**63, True, "1")
        ),
        *(
            ({"signature_name": "small", "instances": [{**SMALL, **changes}]}, error)
            for changes, error in (
                ({"flag": 1}, ": 1; allowed: a valid bool"),
                ({"byte": 256}, ": 256; allowed: a valid uint8"),
                ({"byte": -1}, ": -1; allowed: a valid uint8"),
            )
        ),
        ({"instances": ["a"]}, "an object with the inputs count, numbers, text"),
        ({"inputs": ["a"]}, "an object with the inputs count, numbers, text"),
        # NumPy 1 cannot make such an array; with NumPy 2 its shape is wrong.
        ({"signature_name": "total", "inputs": nest(1, 35)}, '"numbers": '),
        ({"signature_name": "total", "instances": [nest(1, 35)]}, '"numbers": '),
    ],
)
def test_value_of_another_type_is_refused(types, content, error):
    check_refused(types.post("types:predict", **content), error)


def test_bool_and_byte_are_predicted(types):
    response = types.post("types:predict", signature_name="small", instances=[SMALL])
    assert response.json() == {"predictions": [SMALL]}


def test_type_that_json_cannot_have_is_unimplemented(types):
    response = types.post("types:predict", signature_name="length", instances=[1])
    assert response.status_code == 501
    assert response.json() == {"error": '"z": its type is complex64; send it over gRPC'}


def test_too_many_rows_are_refused_before_they_are_read(half_plus_three):
    rows = [1.0] * 5000
    for content in ({"instances": rows}, {"inputs": rows}, {"inputs": {"x": rows}}):
        response = half_plus_three.post("half_plus_three:predict", **content)
        check_refused(response, "has 5000 rows; allowed: at most 4096")


def test_error_of_a_large_value_is_short_and_takes_little_memory():
    rows = [nest([0] * 50_000, 20)]
    tracemalloc.start()
    try:
        with pytest.raises(RequestError) as refused:
            json_requests.signature_name({"signature_name": rows})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.message == '"signature_name": a list; allowed: a string'
    assert peak < 1_000_000


def test_request_is_parsed_to_a_fixed_depth():
    body = '{{"instances": {}1{}}}'
    depth = json_requests.MAX_DEPTH - 1
    document = json_requests.parse(body.format("[" * depth, "]" * depth).encode())
    assert document.keys() == {"instances"}
    for depth in (json_requests.MAX_DEPTH, 100_000):
        deeper = body.format("[" * depth, "]" * depth).encode()
        with pytest.raises(RequestError, match="at most 40 levels"):
            json_requests.parse(deeper)


def test_request_of_too_many_values_is_not_parsed(monkeypatch):
    monkeypatch.setattr(json_requests, "MAX_VALUES", 10)
    assert json_requests.parse(b'{"a": [1, 2, 3, 4, 5]}')
    with pytest.raises(RequestError, match="11 commas and brackets; all"):
        json_requests.parse(b'{"a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]}')
    with pytest.raises(RequestError, match=r"has 21 commas and brackets"):
        json_requests.parse(b'{"a": [' + b"{}," * 9 + b"{}]}")
