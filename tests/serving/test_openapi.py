"""The OpenAPI document describes the requests and responses of the server."""

import re

import pytest
from fastapi.openapi import models

from tests.serving.conftest import SERVERS_OF_PAIRS, VERSION, running

# A package that only one of the stacks has.
jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

pytestmark = pytest.mark.slow

ROW = {"question": "the cat", "answer": "a dog"}
COLUMNS = {name: [text] for name, text in ROW.items()}
TYPES = {"text": "a", "numbers": [1.0, 2.0], "count": 1}


def of_pairs(*bodies):
    """Returns requests to each server of the model of pairs."""
    return [(server, body) for body in bodies for server in SERVERS_OF_PAIRS]


@pytest.fixture
def document(pairs):
    return pairs.http.get("/openapi.json").json()


def validator(server, name):
    """Returns a validator of a schema of a server's document."""
    components = server.http.get("/openapi.json").json()["components"]
    schema = {"$ref": f"#/components/schemas/{name}", "components": components}
    return jsonschema.Draft202012Validator(schema)


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from references(child)


def test_document_has_the_structure_of_openapi_3_1(document):
    assert document["openapi"] == "3.1.0"
    models.OpenAPI.model_validate(document)
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas
    ids = [operation["operationId"] for *_, operation in operations(document)]
    assert len(set(ids)) == len(ids)
    for path, _, operation in operations(document):
        names = [parameter["name"] for parameter in operation.get("parameters", [])]
        assert names == re.findall(r"{(\w+)}", path)


def test_every_documented_path_exists_and_no_api_is_missing(document, pairs):
    methods = set()
    for path, method, operation in operations(document):
        url = path.format(name="pairs", version=VERSION)
        content = {"instances": [ROW]} if method == "post" else None
        response = pairs.http.request(method, url, json=content)
        assert response.status_code == 200
        described = operation["responses"][str(response.status_code)]
        media_type = response.headers["content-type"].partition(";")[0]
        assert media_type in described["content"]
        methods.add((method, re.sub(r"/(versions/{version}|labels/{label})", "", path)))
    model = "/v1/models/{name}"
    assert methods == {
        ("post", f"{model}:predict"),
        *[("get", f"{model}{suffix}") for suffix in ("", "/metadata", "/card")],
        *[("get", path) for path in ("/", "/card", "/healthz", "/readyz", "/metrics")],
        ("get", "/monitoring/prometheus/metrics"),
    }


def test_parameters_have_the_values_that_exist(document, counter):
    names = {"name": ["pairs"]}
    for path, _, operation in operations(document):
        assert "{label}" not in path
        for parameter in operation.get("parameters", []):
            if parameter["name"] in names:
                assert parameter["schema"]["enum"] == names[parameter["name"]]
    with running(counter, labels={"stable": 1}) as server:
        paths = server.http.get("/openapi.json").json()["paths"]
    operation = paths["/v1/models/{name}/labels/{label}:predict"]["post"]
    schemas = {p["name"]: p["schema"] for p in operation["parameters"]}
    assert schemas["name"]["enum"] == ["counter"]
    assert schemas["label"]["enum"] == ["stable"]


@pytest.mark.parametrize("path", ["", "/metadata"])
def test_descriptions_of_the_model_have_their_schema(pairs, path):
    name = "Metadata" if path else "Status"
    validator(pairs, name).validate(pairs.http.get(f"/v1/models/pairs{path}").json())


@pytest.mark.parametrize(
    ("model", "request_body"),
    [
        *of_pairs(
            {"instances": [ROW]},
            {"instances": [ROW], "signature_name": "tokenize"},
            {"inputs": COLUMNS},
            {"instances": [{**ROW, "answer": {"b64": "YQ=="}}]},
            {"instances": [ROW], "min_probability": 1},
            {"inputs": COLUMNS, "min_probability": 1},
        ),
        ("half_plus_three", {"instances": [1.0, 2]}),
        ("half_plus_three", {"instances": [{"x": 1.0}]}),
        ("half_plus_three", {"inputs": {"x": [1.0]}}),
        ("half_plus_three", {"inputs": [1.0]}),
        ("types", {"instances": [TYPES]}),
        ("types", {"signature_name": "total", "inputs": [1, 2]}),
        ("types", {"signature_name": "small", "inputs": {"flag": [True], "byte": [1]}}),
    ],
)
def test_predictions_have_their_schemas(request, model, request_body):
    server = request.getfixturevalue(model)
    response = server.post(f"{server.versions.name}:predict", **request_body)
    assert response.status_code == 200
    validator(server, "PredictRequest").validate(request_body)
    validator(server, "PredictResponse").validate(response.json())


@pytest.mark.parametrize(
    ("model", "request_body"),
    [
        *of_pairs(
            {},
            {"instances": []},
            {"instances": [{"question": "a"}]},
            {"instances": [{**ROW, "more": "a"}]},
            {"instances": [ROW], "min_probability": 0},
            {"instances": [ROW], "min_probability": 1.01},
            {"instances": [ROW], "min_probability": "0.5"},
            {"instances": [{**ROW, "answer": 1}]},
            {"instances": [ROW], "signature_name": "none"},
        ),
        ("half_plus_three", {"instances": ["a"]}),
        ("types", {"instances": [{**TYPES, "numbers": [1.0]}]}),
        ("types", {"instances": [{**TYPES, "count": 1 << 63}]}),
        ("types", {"signature_name": "small", "instances": [{"flag": 1, "byte": 1}]}),
    ],
)
def test_what_the_schema_forbids_is_refused(request, model, request_body):
    server = request.getfixturevalue(model)
    response = server.post(f"{server.versions.name}:predict", **request_body)
    assert response.status_code == 400
    assert not validator(server, "PredictRequest").is_valid(request_body)
    validator(server, "Error").validate(response.json())
