"""The REST API: TensorFlow Serving's documented examples, and exported models."""

import base64

import numpy as np
import pytest

from tests import exported as exported_lib
from tests.exported import PAIRS
from tests.serving.conftest import VERSION, check_refused

pytestmark = pytest.mark.slow

NAME = "pairs"
MODEL = f"/v1/models/{NAME}"


def test_status_is_as_documented(half_plus_three):
    status = {
        "version": "123",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    for path in ("", "/versions/123", f"/versions/{'0' * 5000}123"):
        response = half_plus_three.http.get(f"/v1/models/half_plus_three{path}")
        assert response.json() == {"model_version_status": [status]}
        assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["", "/versions/123"])
def test_metadata_has_the_signatures(half_plus_three, path):
    response = half_plus_three.http.get(f"/v1/models/half_plus_three{path}/metadata")
    content = response.json()
    assert content["model_spec"] == {
        "name": "half_plus_three",
        "signature_name": "",
        "version": "123",
    }
    signatures = content["metadata"]["signature_def"]["signature_def"]
    assert signatures["serving_default"]["inputs"]["x"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
        "name": "x:0",
    }
    assert signatures["parse"]["method_name"] == "tensorflow/serving/predict"


@pytest.mark.parametrize("path", ["", "/versions/123"])
def test_predict_is_as_documented(half_plus_three, path):
    response = half_plus_three.post(
        f"half_plus_three{path}:predict", instances=[1.0, 2.0, 5.0]
    )
    assert response.json() == {"predictions": [3.5, 4.0, 5.5]}
    # A client that does not know the types must not read integers.
    assert "[3.5, 4.0, 5.5]" in response.text


def test_columns_are_returned_in_columns(half_plus_three):
    for inputs in ([1.0, 2.0], {"x": [1.0, 2.0]}):
        response = half_plus_three.post("half_plus_three:predict", inputs=inputs)
        assert response.json() == {"outputs": [3.5, 4.0]}


@pytest.mark.parametrize("api", ["classify", "regress"])
def test_classify_and_regress_are_refused_in_favor_of_predict(pairs, api):
    path = f"pairs/versions/{VERSION}:{api}"
    response = pairs.post(path, examples=[{"x": 1.0}])
    check_refused(response, "use the predict method: POST /v1/models/NAME:predict")
    assert pairs.sample(
        "serving_requests_total", transport="REST", api=api, signature="", code="400"
    )


@pytest.mark.parametrize(
    ("request_line", "status", "error"),
    [
        ("POST /v1/models/half:predict", 404, "model half is not loaded"),
        (f"POST {MODEL}/versions/5:predict", 404, f"{NAME} version 5 is not loaded"),
        (f"POST {MODEL}/labels/canary:predict", 400, "canary; allowed: none"),
        (f"POST {MODEL}/versions/{'9' * 20}:predict", 400, None),
        (f"GET {MODEL}/versions/{'9' * 5000}", 400, f"GET {MODEL}/versions/9999"),
        ("GET /v1/models/half", 404, "model half is unknown"),
        (f"GET {MODEL}/versions/5", 404, f"model {NAME} version 5 is unknown"),
        (f"GET {MODEL}%3Fversion", 400, f"GET {MODEL}?version"),
        (f"POST {MODEL}:predict%23top", 400, f"POST {MODEL}:predict#top"),
        ("GET /v1/models/half/metadata", 404, "model half is not loaded"),
        ("GET /v1/models", 400, None),
        (f"POST {MODEL}", 400, None),
        (f"PUT {MODEL}:predict", 400, None),
        ("GET /v2/models", 404, "Not found: /v2/models"),
    ],
)
def test_unknown_path_or_version_is_refused(pairs, request_line, status, error):
    method, path = request_line.split()
    body = '{"instances": [1.0]}' if method == "POST" else None
    response = pairs.http.request(method, path, content=body)
    check_refused(response, error or f"no API {request_line}", status=status)


def test_error_of_the_model_names_no_file_of_the_machine(half_plus_three):
    response = half_plus_three.post(
        "half_plus_three:predict", signature_name="parse", instances=[{"b64": ""}]
    )
    assert response.status_code == 400
    assert response.json()["error"].startswith("Name: <unknown>, Feature: x (data type")


def test_malformed_example_is_refused(saved_pairs):
    for binary in (b"\xff", b"\n\x05\n\x03\n\x01\xff"):
        row = {"b64": base64.b64encode(binary).decode()}
        response = saved_pairs.post(
            "pairs:predict", signature_name="serve_examples", instances=[row]
        )
        assert response.status_code == 400
        assert response.json()["error"]


def test_request_that_is_too_large_is_refused(pairs, monkeypatch):
    monkeypatch.setattr("serving.rest.MAX_BODY_BYTES", 1000)
    response = pairs.post("pairs:predict", instances=["a" * 1000])
    check_refused(response, "at most 1000 bytes")


def test_exported_model_predicts_rows_and_columns_of_text(pairs, exported):
    rows = [{"question": left, "answer": right} for left, right in PAIRS]
    columns = {name: [row[name] for row in rows] for name in ("question", "answer")}
    by_row = pairs.post("pairs:predict", instances=rows).json()["predictions"]
    by_column = pairs.post("pairs:predict", inputs=columns).json()["outputs"]
    logits = [row["logits"] for row in by_row]
    np.testing.assert_allclose(logits, exported.logits, atol=1e-5)
    np.testing.assert_allclose(by_column["logits"], exported.logits, atol=1e-5)
    classes = [exported.task.classes[i] for i in exported.logits.argmax(-1)]
    assert [row["class"] for row in by_row] == classes
    assert by_column["class_id"] == exported.logits.argmax(-1).tolist()


def test_exported_model_predicts_serialized_examples(saved_pairs, exported):
    rows = exported_lib.rows_of(exported.task, PAIRS)
    encoded = [base64.b64encode(exported_lib.serialize(row)).decode() for row in rows]
    response = saved_pairs.post(
        "pairs:predict",
        signature_name="serve_examples",
        instances=[{"b64": row} for row in encoded],
    )
    logits = [row["logits"] for row in response.json()["predictions"]]
    np.testing.assert_allclose(logits, exported.logits, atol=1e-5)


@pytest.mark.parametrize(
    "signature", ["serve_examples", "transform_features", "slice_features"]
)
def test_portable_model_refuses_examples_with_the_reason(portable_pairs, signature):
    row = {"b64": ""}
    response = portable_pairs.post(
        "pairs:predict", signature_name=signature, instances=[row]
    )
    reason = f'"{signature}" not found: it takes tf.Examples, which need TensorFlow'
    check_refused(response, reason, "allowed: serving_default, tokenize")


TEXTS = [
    *PAIRS,
    ("The CATS, a  b\u00edrd!\n", "\u4e2d\u6587 the [SEP] dog\ufffd\u200b"),
    ("unknownword " * 3 + "cat tree " * 12, "\U0001f600"),
]


@pytest.mark.parametrize(
    "options", [{}, {"min_probability": 0.4}, {"signature_name": "tokenize"}]
)
@pytest.mark.parametrize("key", ["instances", "inputs"])
def test_kinds_of_models_predict_the_same(saved_pairs, portable_pairs, key, options):
    columns = dict(zip(("question", "answer"), zip(*TEXTS, strict=True), strict=True))
    rows = [dict(zip(columns, row, strict=True)) for row in TEXTS]
    content = {key: rows if key == "instances" else columns, **options}
    saved, portable = (
        server.post("pairs:predict", **content)
        for server in (saved_pairs, portable_pairs)
    )
    assert saved.status_code == portable.status_code == 200
    check_equal(portable.json(), saved.json())


def test_kinds_of_models_describe_themselves_the_same(saved_pairs, portable_pairs):
    saved, portable = (
        server.http.get("/v1/models/pairs/metadata").json()["metadata"]
        for server in (saved_pairs, portable_pairs)
    )
    signatures, expected = (
        described.pop("signature_def")["signature_def"]
        for described in (portable, saved)
    )
    assert portable == saved
    assert signatures.keys() == {"serving_default", "tokenize"}
    for name, signature in signatures.items():
        for side in ("inputs", "outputs"):
            for tensor in (*signature[side].values(), *expected[name][side].values()):
                del tensor["name"]  # of the graph
        del signature["defaults"], expected[name]["defaults"]
        assert signature == expected[name]


def check_equal(actual, expected):
    """Asserts that JSON values are equal but for rounding."""
    assert type(actual) is type(expected)
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            check_equal(actual[key], value)
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for value, other in zip(actual, expected, strict=True):
            check_equal(value, other)
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, abs=1e-4)
    else:
        assert actual == expected


def test_metadata_of_an_exported_model_has_the_order_of_its_texts(pairs):
    metadata = pairs.http.get("/v1/models/pairs/metadata").json()["metadata"]
    assert metadata["text_columns"] == ["question", "answer"]


@pytest.mark.parametrize(
    "path",
    [
        *["/", "/card", "/page/page.js", "/openapi.json", "/healthz", "/readyz"],
        *["/metrics", "/monitoring/prometheus/metrics", "/v1/models/pairs"],
        *[f"/v1/models/pairs{path}" for path in ("/metadata", "/card", "/labels/none")],
        *["/v1/models/none", "/v2/models"],
    ],
)
def test_head_has_the_status_and_headers_of_get_but_no_body(pairs, path):
    head, get = pairs.http.head(path), pairs.http.get(path)
    assert head.status_code == get.status_code
    assert head.content == b""
    assert get.content
    changing = {"date"}
    if "metrics" in path:
        changing.add("content-length")
    for name in head.headers.keys() | get.headers.keys():
        assert name in changing or head.headers[name] == get.headers[name]
    assert int(head.headers["content-length"]) > 0
