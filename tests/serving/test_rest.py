"""TensorFlow Serving's REST API, by its documentation's examples and our models."""

import base64
import json
import math

import numpy as np
import pytest
import tensorflow as tf

from tests import exported as exported_lib
from tests.exported import PAIRS

REGRESS = "tensorflow/serving/regress"
CLASSIFY = "tensorflow/serving/classify"
ROW = {"text": "a", "numbers": [1, 2], "count": 1}


def test_status_is_that_of_the_documentation(half_plus_three):
    status = {
        "version": "123",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    for path in ("", "/versions/123"):
        answer = half_plus_three.http.get(f"/v1/models/half_plus_three{path}")
        assert answer.json() == {"model_version_status": [status]}
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["", "/versions/123"])
def test_metadata_tells_the_signatures(half_plus_three, path):
    answer = half_plus_three.http.get(f"/v1/models/half_plus_three{path}/metadata")
    content = answer.json()
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
    assert signatures[REGRESS]["method_name"] == "tensorflow/serving/regress"


@pytest.mark.parametrize("path", ["", "/versions/123"])
def test_predict_is_that_of_the_documentation(half_plus_three, path):
    answer = half_plus_three.post(
        f"half_plus_three{path}:predict", instances=[1.0, 2.0, 5.0]
    )
    assert answer.json() == {"predictions": [3.5, 4.0, 5.5]}
    # A client that knows no types must not take whole numbers for integers.
    assert "[3.5, 4.0, 5.5]" in answer.text


def test_columns_are_answered_in_columns(half_plus_three):
    for inputs in ([1.0, 2.0], {"x": [1.0, 2.0]}):
        answer = half_plus_three.post("half_plus_three:predict", inputs=inputs)
        assert answer.json() == {"outputs": [3.5, 4.0]}


def test_regress_is_that_of_the_documentation(half_plus_three):
    answer = half_plus_three.post(
        "half_plus_three:regress",
        signature_name=REGRESS,
        examples=[{"x": 1.0}, {"x": 2.0}],
    )
    assert answer.json() == {"results": [3.5, 4.0]}


def test_classify_gives_pairs_of_label_and_score(half_plus_three):
    answer = half_plus_three.post(
        "half_plus_three:classify",
        signature_name=CLASSIFY,
        examples=[{"x": [1.0]}, {"x": 2.0}],
    )
    assert answer.json() == {"results": [[["y", 3.5]], [["y", 4.0]]]}


def test_context_is_a_part_of_every_example(half_plus_three):
    answer = half_plus_three.post(
        "half_plus_three:regress",
        signature_name=REGRESS,
        context={"x": 4.0},
        examples=[{}, {"z": "else"}],
    )
    assert answer.json() == {"results": [5.0, 5.0]}


def test_unknown_model_is_that_of_the_documentation(half_plus_three):
    answer = half_plus_three.post("half:predict", instances=[1.0, 5.0])
    assert answer.status_code == 404
    assert answer.json() == {"error": "Servable not found for request: Latest(half)"}


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        (
            *("POST", "/v1/models/half_plus_three/versions/5:predict", 404),
            "Servable not found for request: Specific(half_plus_three, 5)",
        ),
        (
            *("POST", "/v1/models/half_plus_three/labels/canary:predict", 400),
            "Unrecognized servable version label: canary",
        ),
        (
            *(
                "POST",
                "/v1/models/half_plus_three/versions/99999999999999999999:predict",
            ),
            *(400, "Failed to convert version: 99999999999999999999 to numeric."),
        ),
        (
            *("GET", "/v1/models/half", 404),
            "Could not find any versions of model half",
        ),
        (
            *("GET", "/v1/models/half_plus_three/versions/5", 404),
            "Could not find version 5 of model half_plus_three",
        ),
        (
            *("GET", "/v1/models/half/metadata", 404),
            "Servable not found for request: Latest(half)",
        ),
        ("GET", "/v1/models", 400, "Missing model name in request."),
        (
            *("POST", "/v1/models/half_plus_three", 400),
            "Malformed request: POST /v1/models/half_plus_three",
        ),
        (
            *("PUT", "/v1/models/half_plus_three:predict", 400),
            "Malformed request: PUT /v1/models/half_plus_three:predict",
        ),
        ("GET", "/v2/models", 404, "Not found: /v2/models"),
    ],
)
def test_what_is_not_there_is_told_as_by_tensorflow_serving(
    half_plus_three, method, path, status, error
):
    body = '{"instances": [1.0]}' if method == "POST" else None
    answer = half_plus_three.http.request(method, path, content=body)
    assert answer.status_code == status
    assert answer.json() == {"error": error}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", "JSON Parse error: The document is empty"),
        ('{"instances": [1.0, }', "JSON Parse error: Invalid value. at offset: 20"),
        ('{"a" 1}', "JSON Parse error: Missing a colon after a name of object member."),
        ("{} {}", "The document root must not be followed by other values."),
        (
            "[" * 100_000,
            "JSON Parse error: The document is nested deeper than 40",
        ),
        (b'{"instances": ["\xff"]}', "JSON Parse error: Invalid encoding in string."),
        ('{"instances": [' + "9" * 5000 + "]}", "Number too big to be stored."),
        ("[1]", "Is not object"),
        ("{}", "Missing 'inputs' or 'instances' key"),
        (
            '{"instances": [1], "inputs": [1]}',
            "expecting only one of 'inputs' or 'inst",
        ),
        ('{"instances": 1}', "Excepting 'instances' to be an list/array"),
        ('{"instances": []}', "No values in 'instances' array"),
        ('{"signature_name": 5}', "'signature_name' key must be a string value."),
        (
            '{"signature_name": "none", "instances": [1]}',
            'Serving signature name: "none" not found in signature def',
        ),
        (
            '{"instances": [1, "x"]}',
            "Failed to process element: 1 of 'instances' list. Error: "
            'INVALID_ARGUMENT: JSON Value: "x" Type: String is not of expected type: '
            "float",
        ),
        ('{"instances": [true]}', "Type: True is not of expected type: float"),
        ('{"instances": [null]}', "Type: Null is not of expected type: float"),
        ('{"instances": [{"b64": "YQ=="}]}', "Type: Object is not of expected type"),
        ('{"instances": [[1], 2]}', "Expecting shape [1] but got: []"),
        ('{"instances": [[1], [2, 3]]}', "Expecting tensor size: 1 but got: 2"),
        ('{"instances": [{"x": 1}, 2]}', "Expecting object but got list at item 1"),
        (
            '{"instances": [2, {"x": 1}]}',
            "Expecting value/list but got object at item 1",
        ),
        ('{"instances": [{"z": 1}]}', "JSON object: does not have named input: z"),
        ('{"instances": [{}]}', "JSON object: {} keys must be equal to: x"),
        ('{"inputs": {"z": [1]}}', "Missing named input: x in 'inputs' object."),
        (
            '{"inputs": [[1], [2, 3]]}',
            "Encountered list at unexpected size: 2 at level: 1",
        ),
        ('{"inputs": [[1], 2]}', "found at incorrect level: 2 in the JSON DOM"),
        (
            '{"inputs": [1, [2]]}',
            "Encountered list at unexpected level: 1 expected < 1",
        ),
        (
            '{"instances": [16777217]}',
            "Cannot convert JSON value: 16777217 to float without loss of precision.",
        ),
        ('{"instances": [1e39]}', "to float without loss of precision."),
        (
            '{"instances": [[1.0]]}',
            'Expects input "x" of signature "serving_default" to have shape [?] but '
            "shape [1,1] is provided",
        ),
        ('{"inputs": 1.0}', "to have shape [?] but shape [] is provided"),
    ],
)
def test_malformed_predict_is_told_as_by_tensorflow_serving(
    half_plus_three, body, error
):
    path = "/v1/models/half_plus_three:predict"
    answer = half_plus_three.http.post(path, content=body)
    assert answer.status_code == 400
    assert error in answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({}, "key 'examples' is expected and was not found"),
        ({"examples": 1}, "Expecting 'examples' value to be an list/array"),
        ({"examples": []}, "'examples' value is an empty array"),
        ({"examples": [1]}, "Example must be JSON object but got JSON Number"),
        ({"examples": [{"x": [[1]]}]}, "Feature: x has element with unexpected JSON"),
        ({"examples": [{"x": None}]}, "unexpected JSON type: Null"),
        ({"examples": [{"x": [1.5, 1]}]}, "in feature: x expecting type: float"),
        ({"examples": [{"x": 2**63}]}, "Feature: x has uint64 element."),
        ({"examples": [{"x": "a"}]}, "x"),
        ({"examples": [{}], "signature_name": "no"}, "found with the name: no"),
        (
            {"examples": [{}], "signature_name": CLASSIFY},
            "Expected one output Tensor.",
        ),
        (
            {"examples": [{}], "signature_name": "serving_default"},
            "No regression inputs found in SignatureDef: serving_default",
        ),
    ],
)
def test_malformed_regress_is_told_as_by_tensorflow_serving(
    half_plus_three, content, error
):
    content = {"signature_name": REGRESS, **content}
    answer = half_plus_three.post("half_plus_three:regress", **content)
    assert answer.status_code == 400
    assert error in answer.json()["error"]


def test_error_of_the_model_names_no_file_of_the_machine(half_plus_three):
    answer = half_plus_three.post(
        "half_plus_three:regress", signature_name=REGRESS, examples=[{"z": 1.0}]
    )
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Name: <unknown>, Feature: x (data type")


def test_signature_of_another_kind_is_not_classified(half_plus_three):
    answer = half_plus_three.post("half_plus_three:classify", examples=[{"x": 1.0}])
    assert answer.status_code == 400
    assert "No classification inputs found" in answer.json()["error"]


def test_named_inputs_and_outputs_have_names_in_rows_and_columns(kinds):
    row = {**ROW, "is_positive": True, "text_bytes": {"b64": "YQ=="}}
    rows = kinds.post("kinds:predict", instances=[ROW, ROW])
    assert rows.json() == {"predictions": [row, row]}
    inputs = {"text": ["a"], "numbers": [[1, 2]], "count": [1]}
    columns = kinds.post("kinds:predict", inputs=inputs)
    assert columns.json() == {"outputs": {name: [row[name]] for name in row}}


def test_binary_values_go_both_ways_in_base64(kinds):
    value = {"b64": base64.b64encode(b"\x00\xff").decode()}
    inputs = {"text": [value], "numbers": [[1, 2]], "count": [1]}
    answer = kinds.post("kinds:predict", inputs=inputs)
    assert answer.status_code == 400
    assert "Output text is not UTF-8" in answer.json()["error"]
    inputs["text"] = [{"b64": "w6Q="}]
    outputs = kinds.post("kinds:predict", inputs=inputs).json()["outputs"]
    assert outputs["text"] == ["ä"]
    assert outputs["text_bytes"] == [{"b64": "w6Q="}]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ({"b64": "?"}, "Unable to base64 decode"),
        ({"base64": "YQ=="}, "not formatted correctly for base64 data"),
        ("\ud800", "The surrogate pair in string is invalid."),
        (1, "JSON Value: 1 Type: Number is not of expected type: string"),
    ],
)
def test_malformed_string_is_refused(kinds, text, error):
    inputs = {"text": [text], "numbers": [[1, 2]], "count": [1]}
    content = json.dumps({"inputs": inputs})
    answer = kinds.http.post("/v1/models/kinds:predict", content=content)
    assert answer.status_code == 400
    assert error in answer.json()["error"]


def test_special_and_small_numbers_keep_their_value(kinds):
    rows = [
        '{"text": "", "numbers": [NaN, Infinity], "count": 9007199254740993}',
        '{"text": "", "numbers": [0.2, -Infinity], "count": -1}',
        '{"text": "", "numbers": [1e-30, 16777215], "count": 0}',
    ]
    content = f'{{"instances": [{",".join(rows)}]}}'
    answer = kinds.http.post("/v1/models/kinds:predict", content=content)
    first, second, third = answer.json()["predictions"]
    assert math.isnan(first["numbers"][0])
    assert first["numbers"][1] == math.inf
    assert first["count"] == 9007199254740993
    assert second["numbers"] == [0.2, -math.inf]
    assert third["numbers"] == [1e-30, 16777215.0]
    assert "[NaN, Infinity]" in answer.text


@pytest.mark.parametrize("count", [1.5, 2**63, True, "1"])
def test_value_that_is_no_int64_is_refused(kinds, count):
    answer = kinds.post("kinds:predict", instances=[{**ROW, "count": count}])
    assert answer.status_code == 400
    assert "is not of expected type: int64" in answer.json()["error"]


def test_plain_list_for_several_inputs_is_refused(kinds):
    for content in ({"instances": ["a"]}, {"inputs": ["a"]}):
        answer = kinds.post("kinds:predict", **content)
        assert answer.status_code == 400
        assert "multiple input tensors required" in answer.json()["error"]


def test_output_that_is_not_by_row_is_given_in_columns_alone(kinds):
    asked = {"signature_name": "total"}
    answer = kinds.post("kinds:predict", inputs=[1, 2], **asked)
    assert answer.json() == {"outputs": 3}
    answer = kinds.post("kinds:predict", instances=[1, 2], **asked)
    assert answer.json() == {"error": "Tensor name: total has no shape information "}


def test_columns_of_unequal_length_are_refused(pairs):
    columns = {"question": ["a"], "answer": ["a", "b"]}
    answer = pairs.post("pairs:predict", inputs=columns)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": 'Inputs of signature "serving_default" must have the same number of '
        "rows: answer has 2, question has 1"
    }


def test_too_many_rows_are_counted_before_they_are_read(half_plus_three):
    rows = [1.0] * 5000
    for content in ({"instances": rows}, {"inputs": rows}, {"inputs": {"x": rows}}):
        answer = half_plus_three.post("half_plus_three:predict", **content)
        assert answer.status_code == 400
        assert "has 5000 rows; at most 4096 are allowed" in answer.json()["error"]
    examples = {"signature_name": REGRESS, "examples": [{}] * 5000}
    answer = half_plus_three.post("half_plus_three:regress", **examples)
    assert "has 5000 rows; at most 4096 are allowed" in answer.json()["error"]


def test_rows_of_many_batches_are_answered_in_order(half_plus_three):
    rows = [float(row) for row in range(1000)]
    answer = half_plus_three.post("half_plus_three:predict", instances=rows)
    assert answer.json()["predictions"] == [row / 2 + 3 for row in rows]


def test_context_that_grows_with_the_examples_is_refused(half_plus_three):
    content = {"context": {"z": "a" * 50_000}, "examples": [{}] * 4000}
    answer = half_plus_three.post(
        "half_plus_three:regress", signature_name=REGRESS, **content
    )
    assert answer.status_code == 400
    assert "copied to 4000 examples" in answer.json()["error"]


def test_tensor_of_too_many_dimensions_is_refused(kinds):
    nested = 1
    for _ in range(35):
        nested = [nested]
    for content in ({"inputs": nested}, {"instances": [nested]}):
        answer = kinds.post("kinds:predict", signature_name="total", **content)
        assert answer.status_code == 400
        assert "A tensor has at most 31 dimensions" in answer.json()["error"]


def test_version_of_thousands_of_digits_is_refused(half_plus_three):
    path = f"/v1/models/half_plus_three/versions/{'9' * 5000}"
    for answer in (
        half_plus_three.http.post(f"{path}:predict", content='{"instances": [1.0]}'),
        half_plus_three.http.get(path),
    ):
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("Failed to convert version: 9999")
    path = f"/v1/models/half_plus_three/versions/{'0' * 5000}123"
    assert half_plus_three.http.get(path).status_code == 200


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("predict", r'{"signature_name": "\ud800", "instances": [1]}'),
        ("predict", r'{"instances": ["\ud800"]}'),
        ("predict", r'{"instances": [{"\ud800": 1}]}'),
        ("regress", r'{"signature_name": "\ud800", "examples": [{}]}'),
        ("regress", r'{"examples": [{"\ud800": 1}]}'),
        ("classify", r'{"examples": [{"x": "\ud800"}]}'),
    ],
)
def test_half_of_a_surrogate_pair_is_refused(half_plus_three, api, body):
    path = f"/v1/models/half_plus_three:{api}"
    answer = half_plus_three.http.post(path, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_example_that_is_no_example_is_refused(pairs):
    for binary in (b"\xff", b"\n\x05\n\x03\n\x01\xff"):
        row = {"b64": base64.b64encode(binary).decode()}
        answer = pairs.post(
            "pairs:predict", signature_name="serve_examples", instances=[row]
        )
        assert answer.status_code == 400
        assert answer.json()["error"]


def test_request_that_is_too_large_is_refused(kinds, monkeypatch):
    monkeypatch.setattr("serving.rest.MAX_BODY_BYTES", 1000)
    answer = kinds.post("kinds:predict", instances=["a" * 1000])
    assert answer.status_code == 400
    assert "larger than 1000 bytes" in answer.json()["error"]


def test_exported_model_answers_text_in_rows_and_columns(pairs, exported):
    rows = [{"question": left, "answer": right} for left, right in PAIRS]
    columns = {name: [row[name] for row in rows] for name in ("question", "answer")}
    by_row = pairs.post("pairs:predict", instances=rows).json()["predictions"]
    by_column = pairs.post("pairs:predict", inputs=columns).json()["outputs"]
    logits = [row["logits"] for row in by_row]
    np.testing.assert_allclose(logits, exported.logits, atol=1e-5)
    np.testing.assert_allclose(by_column["logits"], exported.logits, atol=1e-5)
    wanted = [exported.task.classes[i] for i in exported.logits.argmax(-1)]
    assert [row["class"] for row in by_row] == wanted
    assert by_column["class_id"] == exported.logits.argmax(-1).tolist()


def test_exported_model_answers_serialized_examples(pairs, exported):
    rows = exported_lib.rows_of(exported.task, PAIRS)
    encoded = [base64.b64encode(exported_lib.serialize(row)).decode() for row in rows]
    answer = pairs.post(
        "pairs:predict",
        signature_name="serve_examples",
        instances=[{"b64": row} for row in encoded],
    )
    logits = [row["logits"] for row in answer.json()["predictions"]]
    np.testing.assert_allclose(logits, exported.logits, atol=1e-5)


def test_metadata_of_the_exported_model_tells_the_order_of_its_texts(pairs):
    metadata = pairs.http.get("/v1/models/pairs/metadata").json()["metadata"]
    assert metadata["text_columns"] == ["question", "answer"]


def test_page_names_the_model_and_needs_nothing_from_elsewhere(pairs):
    page = pairs.http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert '<meta name="model" content="pairs">' in page.text
    assert "://" not in page.text


def test_requests_are_counted_by_api_signature_and_status(half_plus_three):
    half_plus_three.post("half_plus_three:predict", instances=[1.0])
    half_plus_three.post("half_plus_three:predict", instances=["a"])
    half_plus_three.post("half_plus_three:predict", signature_name="made up")
    for path in ("/metrics", "/monitoring/prometheus/metrics"):
        text = half_plus_three.http.get(path).text
        for signature, code in (
            ("serving_default", 200),
            ("serving_default", 400),
            ("unknown", 400),
        ):
            labels = f'api="predict",code="{code}",signature="{signature}"'
            assert f'serving_requests_total{{{labels},transport="REST"}}' in text
        assert "made up" not in text
        assert "serving_request_seconds_bucket" in text
        assert "serving_batch_rows_bucket" in text
        assert "serving_queued_rows 0.0" in text
        assert "serving_loaded_versions 1.0" in text
        assert 'serving_load_seconds{version="123"}' in text


def test_server_is_alive_and_ready(half_plus_three):
    assert half_plus_three.http.get("/healthz").status_code == 200
    assert half_plus_three.http.get("/readyz").json() == {"status": "ready"}


def test_answers_equal_those_of_the_bare_model(pairs, exported):
    bare = tf.saved_model.load(str(exported.directory)).signatures["serving_default"]
    for left, right in PAIRS:
        wanted = bare(question=tf.constant([left]), answer=tf.constant([right]))
        (row,) = pairs.post(
            "pairs:predict", instances=[{"question": left, "answer": right}]
        ).json()["predictions"]
        np.testing.assert_array_equal(
            np.float32(row["probabilities"]), wanted["probabilities"][0]
        )
