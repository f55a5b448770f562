"""Outputs as JSON: names, types, base64 and numbers."""

import base64
import math

from tests.serving.conftest import check_refused
from tests.serving.test_json_requests import ROW


def test_rows_and_columns_have_the_names_of_the_outputs(types):
    row = {**ROW, "is_positive": True, "text_bytes": {"b64": "YQ=="}}
    rows = types.post("types:predict", instances=[ROW, ROW])
    assert rows.json() == {"predictions": [row, row]}
    inputs = {"text": ["a"], "numbers": [[1, 2]], "count": [1]}
    columns = types.post("types:predict", inputs=inputs)
    assert columns.json() == {"outputs": {name: [row[name]] for name in row}}


def test_binary_strings_are_base64_in_requests_and_responses(types):
    value = {"b64": base64.b64encode(b"\x00\xff").decode()}
    inputs = {"text": [value], "numbers": [[1, 2]], "count": [1]}
    response = types.post("types:predict", inputs=inputs)
    check_refused(response, "the output text is not UTF-8")
    inputs["text"] = [{"b64": "w6Q="}]
    outputs = types.post("types:predict", inputs=inputs).json()["outputs"]
    assert outputs["text"] == ["ä"]
    assert outputs["text_bytes"] == [{"b64": "w6Q="}]


def test_special_and_small_numbers_keep_their_value(types):
    rows = [
        '{"text": "", "numbers": [NaN, Infinity], "count": 9007199254740993}',
        '{"text": "", "numbers": [0.2, -Infinity], "count": -1}',
        '{"text": "", "numbers": [1e-30, 16777215], "count": 0}',
    ]
    content = f'{{"instances": [{",".join(rows)}]}}'
    response = types.http.post("/v1/models/types:predict", content=content)
    first, second, third = response.json()["predictions"]
    assert math.isnan(first["numbers"][0])
    assert first["numbers"][1] == math.inf
    assert first["count"] == 9007199254740993
    assert second["numbers"] == [0.2, -math.inf]
    assert third["numbers"] == [1e-30, 16777215.0]
    assert "[NaN, Infinity]" in response.text


def test_output_that_is_not_by_row_is_returned_in_columns_only(types):
    total = {"signature_name": "total"}
    response = types.post("types:predict", inputs=[1, 2], **total)
    assert response.json() == {"outputs": 3}
    response = types.post("types:predict", instances=[1, 2], **total)
    check_refused(response, "the outputs have no rows", "total []")
