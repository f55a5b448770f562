"""The OpenAPI document of the REST API, with the schemas of the served model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fastapi
import numpy as np
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from serving import abstention
from serving.access import JSON
from serving.errors import RequestError
from serving.json_responses import BINARY_SUFFIX
from serving.loaded_versions import LoadedVersions, State
from serving.model_facts import ModelFacts
from serving.signatures import DEFAULT_SIGNATURE, TensorSpec

Schema = dict[str, Any]

MARKDOWN = "text/markdown"
_DESCRIPTION = """\
TensorFlow Serving's REST API for one model. The schemas of predict come from the \
signatures of the newest version that is loaded. Numbers may be NaN, Infinity and \
-Infinity, as TensorFlow Serving writes them.
"""
_ERRORS = {
    400: "The request is invalid, or the `Host` header is not allowed.",
    401: "The server's token is missing or wrong.",
    403: "The request comes from a page of another origin.",
    404: "The model, the version or the card does not exist.",
    415: f"A browser sent a content type other than `{JSON}`.",
    500: "The server failed; its log has the details.",
    501: "An input has a type that JSON cannot represent.",
    503: "A queue or the memory is full, or the server is shutting down.",
    504: "The request took longer than `--request-seconds`.",
}
_PARAMETERS = {
    "name": ("The model's name.", {"type": "string"}),
    "version": (
        "A version that is loaded.",
        {"type": "string", "pattern": "^[0-9]{1,19}$"},
    ),
    "label": ("A label of `--label`.", {"type": "string"}),
}
_STRING: Schema = {"type": "string"}
_BASE64: Schema = {
    "type": "object",
    "properties": {"b64": {"type": "string", "contentEncoding": "base64"}},
    "required": ["b64"],
    "additionalProperties": False,
}
_INPUT_STRING: Schema = {"anyOf": [_STRING, _BASE64]}
_MIN_PROBABILITY: Schema = {
    "description": "`class` and `class_id` are null in a row whose predicted class "
    "has a lower probability. TensorFlow Serving has no such field.",
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": 1,
}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _operation(
    operation_id: str,
    summary: str,
    content: dict[str, Schema],
    errors: Sequence[int] = (),
    **extra: Any,
) -> dict[str, Any]:
    """Returns FastAPI's arguments of a route."""
    responses: dict[int | str, dict[str, Any]] = {
        code: {
            "description": _ERRORS[code],
            "content": {JSON: {"schema": _ref("Error")}},
        }
        for code in (400, 401, 403, *errors)
    }
    responses[200] = {
        "description": "The request succeeded.",
        "content": {name: {"schema": schema} for name, schema in content.items()},
    }
    return {
        "operation_id": operation_id,
        "summary": summary,
        "responses": responses,
        "response_class": fastapi.Response,
        "openapi_extra": extra,
    }


def _open(
    operation_id: str, summary: str, content: dict[str, Schema]
) -> dict[str, Any]:
    """Returns the arguments of a route that needs no token."""
    operation = _operation(operation_id, summary, content, security=[])
    del operation["responses"][401]
    return operation


def _health(operation_id: str, summary: str) -> dict[str, Any]:
    operation = _open(operation_id, summary, {JSON: _ref("Health")})
    del operation["responses"][400]  # probes may send any host
    return operation


PAGE = _open("page", "The page to try the model", {"text/html": _STRING})
CARD_PAGE = _operation(
    "card_page",
    "The page of the model card",
    {"text/html": _STRING},
    errors=(404, 503),
)
ALIVE = _health("alive", "Whether the process is alive")
READY = _health("ready", "Whether a version is loaded and the server is not draining")
READY["responses"][503] = {
    "description": "No version is loaded, or the server is draining.",
    "content": {JSON: {"schema": _ref("Health")}},
}
METRICS = _operation("metrics", "Metrics for Prometheus", {"text/plain": _STRING})
TF_SERVING_METRICS = _operation(
    "tf_serving_metrics",
    "Metrics for Prometheus, at TensorFlow Serving's path",
    {"text/plain": _STRING},
)


def _model_operations() -> list[tuple[str, str, dict[str, Any]]]:
    body = {
        "required": True,
        "content": {JSON: {"schema": _ref("PredictRequest")}},
    }
    predict_errors = (404, 415, 500, 501, 503, 504)
    operations = []
    for key, infix in (("", ""), ("version", "versions/"), ("label", "labels/")):
        target = "/v1/models/{name}" + (f"/{infix}{{{key}}}" if key else "")
        suffix = f"_of_{key}" if key else ""
        scope = f" of a {key}" if key else ""
        parameters = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": _PARAMETERS[name][0],
                "schema": _PARAMETERS[name][1],
            }
            for name in ("name", key)
            if name
        ]
        for method, path, name, summary, content, extra in (
            *[("POST", ":predict", "predict", "Predictions", "PredictResponse", body)],
            *[("GET", "", "status", "States of the versions", "Status", None)],
            *[("GET", "/metadata", "metadata", "Signatures", "Metadata", None)],
            *[("GET", "/card", "card", "The model card", None, None)],
        ):
            operation = _operation(
                f"{name}{suffix}",
                summary + scope,
                {JSON: _ref(content)} if content else {MARKDOWN: _STRING},
                predict_errors if extra else (404, 500, 503, 504),
                parameters=parameters,
                **({"requestBody": extra} if extra else {}),
            )
            operations.append((method, f"{target}{path}", operation))
    return operations


MODEL_OPERATIONS = _model_operations()
"""Method, path and FastAPI's arguments of every operation on the model."""


def describe(
    routes: Sequence[BaseRoute],
    name: str,
    *,
    labels: Sequence[str] = (),
    needs_token: bool = False,
) -> dict[str, Any]:
    """Builds the document without its schemas, which takes tens of milliseconds.

    Args:
      routes: The application's routes.
      name: The model's name.
      labels: The labels of versions; without any, their paths are left out.
      needs_token: Whether clients must send a token.
    """
    document = get_openapi(
        title=name, version="1", description=_DESCRIPTION, routes=routes
    )
    paths = document["paths"]
    if not labels:
        paths = {path: item for path, item in paths.items() if "{label}" not in path}
        document["paths"] = paths
    values = {"name": [name], "label": list(labels)}
    for item in paths.values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in values:
                    parameter["schema"]["enum"] = values[parameter["name"]]
    if needs_token:
        scheme = {"type": "http", "scheme": "bearer"}
        document["components"] = {"securitySchemes": {"token": scheme}}
        document["security"] = [{"token": []}]
    return document


def with_schemas(document: dict[str, Any], versions: LoadedVersions) -> dict[str, Any]:
    """Returns a document with the schemas of the version that is served now.

    Args:
      document: What `describe` returns.
      versions: The model.
    """
    version = _object(
        version=_STRING,
        state={"type": "string", "enum": [state.name for state in State]},
        status=_object(error_code=_STRING, error_message=_STRING),
    )
    metadata = _object(
        signature_def=_object(signature_def={"type": "object"}),
        has_card={"type": "boolean"},
    )
    strings = {"type": "array", "items": _STRING}
    metadata["properties"] |= {  # not required: other pipelines' models lack them
        "text_columns": strings,
        "classes": strings,
        "separator": _STRING,
        "label_range": {"type": "array", "items": {"type": "number"}},
        "examples": {"type": "array"},
    }
    spec = _object(name=_STRING, signature_name=_STRING, version=_STRING)
    schemas = {
        "Error": _object(error=_STRING),
        "Health": _object(status=_STRING),
        "Status": _object(model_version_status={"type": "array", "items": version}),
        "Metadata": _object(model_spec=spec, metadata=metadata),
    }
    try:
        with versions.use(versions.name) as model:
            schemas |= _predict_schemas(model)
    except RequestError:  # no version is loaded
        schemas |= {"PredictRequest": {}, "PredictResponse": {}}
    components = {**document.get("components", {}), "schemas": schemas}
    return {**document, "components": components}


def _predict_schemas(model: ModelFacts) -> dict[str, Schema]:
    requests, schemas = [], {}
    for name, signature in model.signatures.items():
        # The characters that OpenAPI allows in a name.
        key = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
        for kind, is_row in (("rows", True), ("columns", False)):
            inputs = {
                tensor: _tensor(spec, _INPUT_STRING, is_row=is_row)
                for tensor, spec in signature.inputs.items()
            }
            outputs = {
                tensor: _tensor(
                    spec,
                    _BASE64 if tensor.endswith(BINARY_SUFFIX) else _STRING,
                    is_row=is_row,
                )
                for tensor, spec in signature.outputs.items()
            }
            can_abstain = abstention.can_abstain(signature)
            for tensor in abstention.CLASS_OUTPUTS if can_abstain else ():
                outputs[tensor] = _or_null(outputs[tensor], is_row=is_row)
            # A single output has no name in a response.
            (output, *others) = outputs.values()
            output = _object(**outputs) if others else output
            if is_row:
                row = {**_object(**inputs), "additionalProperties": False}
                rows = {"type": "array", "items": _or_bare(row, inputs), "minItems": 1}
                request = _object(instances=rows)
                response = _object(predictions={"type": "array", "items": output})
            else:
                request = _object(inputs=_or_bare(_object(**inputs), inputs))
                response = _object(outputs=output)
            if can_abstain:
                request["properties"][abstention.MIN_PROBABILITY] = _MIN_PROBABILITY
            if name == DEFAULT_SIGNATURE:
                request["properties"]["signature_name"] = {"enum": [name, ""]}
            else:
                request["properties"]["signature_name"] = {"const": name}
                request["required"].append("signature_name")
            schemas[f"{key}.{kind}.request"] = request
            schemas[f"{key}.{kind}.response"] = response
            requests.append(f"{key}.{kind}")
    for suffix in ("Request", "Response"):
        parts = [_ref(f"{name}.{suffix.lower()}") for name in requests]
        schemas[f"Predict{suffix}"] = {"anyOf": parts}
    return schemas


def _or_bare(inputs: Schema, tensors: dict[str, Schema]) -> Schema:
    """Allows a single input without its name."""
    return {"anyOf": [inputs, *tensors.values()]} if len(tensors) == 1 else inputs


def _or_null(schema: Schema, *, is_row: bool) -> Schema:
    """Allows null instead of each value of a tensor, or of a row of it."""
    if not is_row:
        return {**schema, "items": _or_null(schema["items"], is_row=True)}
    return {"anyOf": [schema, {"type": "null"}]}


def _tensor(spec: TensorSpec, string: Schema, *, is_row: bool = False) -> Schema:
    """Returns the schema of a tensor, or of a row of it."""
    if spec.shape is None:
        return {}
    schema = _element(spec.dtype, string)
    for size in reversed(spec.shape[1:] if is_row else spec.shape):
        schema = {"type": "array", "items": schema}
        if size is not None:
            schema |= {"minItems": size, "maxItems": size}
    return schema


def _element(dtype: np.dtype, string: Schema) -> Schema:
    if dtype.kind == "O":
        return string
    if dtype.kind == "b":
        return {"type": "boolean"}
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return {
            "type": "integer",
            "minimum": int(limits.min),
            "maximum": int(limits.max),
        }
    return {"type": "number"}
