"""TensorFlow Serving's REST API, with health, metrics and a page beside it."""

from __future__ import annotations

import html
import importlib.resources
import json
import re
import string
from typing import Any

import fastapi
import numpy as np
import prometheus_client
from fastapi import responses
from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2

from serving import examples, json_tensors, json_values
from serving.batching import Batcher
from serving.errors import RequestError, invalid
from serving.health import Health
from serving.metrics import Call, Metrics
from serving.models import SERVING_DEFAULT, Model
from serving.versions import Version, Versions

MAX_BODY_BYTES = 64 << 20
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
_TARGET = (
    r"(?i)/v1/models(?:/(?P<name>[^/:]+))?"
    r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
)
_PREDICTION = re.compile(rf"{_TARGET}:(?P<api>classify|regress|predict)")
_STATUS = re.compile(rf"{_TARGET}(?P<metadata>/metadata)?")
_MAX_VERSION = np.iinfo(np.int64).max


class RestApi:
    """Answers requests in JSON."""

    def __init__(
        self, versions: Versions, batcher: Batcher, metrics: Metrics, health: Health
    ) -> None:
        self._versions = versions
        self._batcher = batcher
        self._metrics = metrics
        self._health = health

    def application(self) -> fastapi.FastAPI:
        """Returns the ASGI application."""
        # Its own pages of documentation load scripts from elsewhere.
        app = fastapi.FastAPI(openapi_url=None)
        app.get("/")(self._page)
        app.get("/healthz")(_tell_alive)
        app.get("/readyz")(self._tell_ready)
        app.get("/metrics")(self._tell_metrics)
        app.get("/monitoring/prometheus/metrics")(self._tell_metrics)
        app.api_route("/v1/{path:path}", methods=_METHODS)(self._answer)
        app.exception_handler(404)(_not_found)
        app.exception_handler(Exception)(_internal_error)
        return app

    async def _answer(self, request: fastapi.Request) -> fastapi.Response:
        path = request.url.path
        if request.method == "POST" and (match := _PREDICTION.fullmatch(path)):
            api, answer = match["api"].lower(), self._predict
        elif request.method == "GET" and (match := _STATUS.fullmatch(path)):
            api, answer = "metadata" if match["metadata"] else "status", self._describe
        else:
            match, api, answer = None, "unknown", self._predict
        with self._metrics.call("REST", api) as call:
            try:
                if match is None:
                    raise invalid(f"Malformed request: {request.method} {path}")
                response = _json(200, await answer(match, request, call))
            except RequestError as error:
                response = _json(error.http_status, {"error": error.message})
            except Exception:
                call.code = "500"
                raise
            call.code = str(response.status_code)
            return response

    async def _predict(
        self, match: re.Match[str], request: fastapi.Request, call: Call
    ) -> dict[str, Any]:
        document = json_values.parse(await _read_body(request))
        signature = json_values.signature_name(document)
        answer = {
            "predict": self._answer_tensors,
            "classify": self._answer_classes,
            "regress": self._answer_values,
        }[match["api"].lower()]
        with self._versions.use(*_target(match)) as model:
            call.signature = _known(model, signature)
            return await answer(model, signature, document)

    async def _answer_tensors(
        self, model: Model, name: str, document: dict[str, Any]
    ) -> dict[str, Any]:
        signature = model.signatures.get(name or SERVING_DEFAULT)
        if signature is None:
            raise invalid(
                f'Serving signature name: "{name or SERVING_DEFAULT}" not found in '
                "signature def"
            )
        if not signature.inputs:
            raise invalid(f"Failed to get input map for signature: {name or 'DEFAULT'}")
        inputs = json_tensors.read_inputs(document, signature.inputs)
        outputs = await self._batcher.run(model, signature, inputs)
        if json_tensors.INSTANCES in document:
            return json_tensors.write_rows(outputs)
        return json_tensors.write_columns(outputs)

    async def _answer_classes(
        self, model: Model, name: str, document: dict[str, Any]
    ) -> dict[str, Any]:
        rows = examples.serialize(examples.read_input(document))
        signature = examples.classification_signature(model, name)
        outputs = await self._batcher.run(model, signature, {examples.INPUTS: rows})
        return examples.write_classes(examples.read_classes(outputs, len(rows)))

    async def _answer_values(
        self, model: Model, name: str, document: dict[str, Any]
    ) -> dict[str, Any]:
        rows = examples.serialize(examples.read_input(document))
        signature = examples.regression_signature(model, name)
        outputs = await self._batcher.run(model, signature, {examples.INPUTS: rows})
        return examples.write_values(examples.read_values(outputs, len(rows)))

    async def _describe(
        self, match: re.Match[str], request: fastapi.Request, call: Call
    ) -> dict[str, Any]:
        name, version, label = _target(match)
        if match["metadata"]:
            with self._versions.use(name, version, label) as model:
                return {
                    "model_spec": {
                        "name": name,
                        "signature_name": "",
                        "version": str(model.version),
                    },
                    "metadata": _metadata(model),
                }
        known = self._versions.describe(name, version, label)
        return {"model_version_status": [_status(version) for version in known]}

    async def _page(self) -> fastapi.Response:
        page = importlib.resources.files(__package__).joinpath("page.html")
        text = string.Template(page.read_text(encoding="utf-8"))
        name = html.escape(self._versions.name)
        return responses.HTMLResponse(text.substitute(model=name))

    async def _tell_ready(self) -> fastapi.Response:
        if self._health.is_ready:
            return _json(200, {"status": "ready"})
        why = "draining" if self._health.is_draining else "no version is loaded"
        return _json(503, {"status": why})

    async def _tell_metrics(self) -> fastapi.Response:
        return fastapi.Response(
            self._metrics.text(), media_type=prometheus_client.CONTENT_TYPE_LATEST
        )


async def _tell_alive() -> fastapi.Response:
    return _json(200, {"status": "alive"})


async def _not_found(request: fastapi.Request, error: Exception) -> fastapi.Response:
    return _json(404, {"error": f"Not found: {request.url.path}"})


async def _internal_error(
    request: fastapi.Request, error: Exception
) -> fastapi.Response:
    return _json(500, {"error": f"{type(error).__name__}: {error}"})


def _json(status: int, content: dict[str, Any]) -> fastapi.Response:
    # Not FastAPI's, which knows no NaN.
    text = json.dumps(content, ensure_ascii=False)
    return fastapi.Response(text.encode(), status, media_type="application/json")


async def _read_body(request: fastapi.Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise invalid(
                f"The request is larger than {MAX_BODY_BYTES} bytes. Send its rows in "
                "several requests"
            )
    return bytes(body)


def _target(match: re.Match[str]) -> tuple[str, int | None, str | None]:
    if not match["name"]:
        raise invalid("Missing model name in request.")
    if match["version"] is None:
        return match["name"], None, match["label"]
    if int(match["version"]) > _MAX_VERSION:
        raise invalid(f"Failed to convert version: {match['version']} to numeric.")
    return match["name"], int(match["version"]), None


def _known(model: Model, signature: str) -> str:
    signature = signature or SERVING_DEFAULT
    return signature if signature in model.signatures else "unknown"


def _status(version: Version) -> dict[str, Any]:
    return {
        "version": str(version.number),
        "state": version.state.name,
        "status": {
            "error_code": "INTERNAL" if version.error else "OK",
            "error_message": version.error or "",
        },
    }


def _metadata(model: Model) -> dict[str, Any]:
    signatures = get_model_metadata_pb2.SignatureDefMap(
        signature_def=model.signature_defs
    )
    # Fields with their default value, too, and by their names in the messages. The
    # arguments go by position, since protobuf 5 gave the first one another name
    # (https://github.com/protocolbuffers/protobuf/commit/26995798757fbfef5cf6648610848e389db1fecf).
    described = json_format.MessageToDict(signatures, True, True)
    metadata = {"signature_def": described}
    if model.text_columns is not None:
        metadata["text_columns"] = model.text_columns
    return metadata
