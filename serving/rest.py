"""TensorFlow Serving's REST API, with health, metrics and a page beside it."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import html
import importlib.resources
import json
import re
import string
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import fastapi
import grpc
import numpy as np
import prometheus_client
from fastapi import responses
from google.protobuf import json_format
from starlette.requests import ClientDisconnect
from tensorflow_serving.apis import get_model_metadata_pb2

from serving import access, examples, json_tensors, json_values
from serving.batching import Batcher, Outputs
from serving.errors import RequestError, describe_failure, invalid
from serving.health import Health
from serving.limits import (
    MAX_REQUEST_BYTES,
    RequestLimits,
    RequestMemory,
    limit_time,
)
from serving.metrics import Call, Metrics
from serving.models import SERVING_DEFAULT, Model
from serving.signatures import Signature, Tensors
from serving.versions import Version, Versions

MAX_BODY_BYTES = MAX_REQUEST_BYTES
# Refusals that do not wait for the rest of a request.
_UNREAD = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
_TARGET = (
    r"(?i)/v1/models(?:/(?P<name>[^/:]+))?"
    r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
)
_PREDICTION = re.compile(rf"{_TARGET}:(?P<api>classify|regress|predict)")
_STATUS = re.compile(rf"{_TARGET}(?P<metadata>/metadata)?")
_MAX_VERSION = np.iinfo(np.int64).max
_MAX_VERSION_DIGITS = len(str(_MAX_VERSION))


@dataclasses.dataclass(frozen=True)
class _Prediction:
    """A request that was read: what runs, and how the outputs become JSON."""

    signature: Signature
    inputs: Tensors
    write: Callable[[Outputs], dict[str, Any]]


class RestApi:
    """Answers requests in JSON."""

    def __init__(
        self,
        versions: Versions,
        batcher: Batcher,
        metrics: Metrics,
        health: Health,
        memory: RequestMemory,
        *,
        request_seconds: float = RequestLimits.request_seconds,
    ) -> None:
        self._versions = versions
        self._batcher = batcher
        self._metrics = metrics
        self._health = health
        self._memory = memory
        self._request_seconds = request_seconds
        self._unread: set[asyncio.Task[bytes]] = set()

    def application(
        self, host: str = "127.0.0.1", allowed_hosts: Sequence[str] = ()
    ) -> fastapi.FastAPI:
        """Returns the ASGI application.

        Args:
          host: The address that the server listens on.
          allowed_hosts: Further hosts that it is reached by.
        """
        # Its own pages of documentation load scripts from elsewhere.
        app = fastapi.FastAPI(openapi_url=None)
        app.add_middleware(
            access.AccessMiddleware, host=host, allowed_hosts=allowed_hosts
        )
        app.get("/")(self._page)
        app.get("/healthz")(_tell_alive)
        app.get("/readyz")(self._tell_ready)
        app.get("/metrics")(self._tell_metrics)
        app.get("/monitoring/prometheus/metrics")(self._tell_metrics)
        app.api_route("/v1/{path:path}", methods=_METHODS)(self._answer)
        app.exception_handler(404)(_not_found)
        app.exception_handler(Exception)(_internal_error)
        return app

    @property
    def is_reading(self) -> bool:
        """Whether requests have not arrived as a whole."""
        return bool(self._unread)

    def stop_reading(self) -> None:
        """Refuses the requests that have not arrived as a whole."""
        for reading in self._unread:
            reading.cancel()

    async def _answer(self, request: fastapi.Request) -> fastapi.Response:
        path = request.url.path
        if request.method == "POST" and (match := _PREDICTION.fullmatch(path)):
            api, answer = match["api"].lower(), self._predict
        elif request.method == "GET" and (match := _STATUS.fullmatch(path)):
            api, answer = "metadata" if match["metadata"] else "status", self._describe
        else:
            match, api, answer = None, "unknown", self._predict
        with self._memory.reserve() as reserve:
            try:
                if match is None:
                    raise invalid(f"Malformed request: {request.method} {path}")
                body = await self._read_body(request, reserve)
            except (RequestError, ClientDisconnect) as error:
                with self._metrics.call("REST", api) as call:
                    return _refuse_unread(call, error)
            with self._metrics.call("REST", api) as call:
                answering = limit_time(answer(match, body, call), self._request_seconds)
                return await _answer(call, request, answering)

    async def _read_body(
        self, request: fastapi.Request, reserve: Callable[[int], None]
    ) -> bytes:
        reading = asyncio.create_task(_read_body(request, reserve))
        self._unread.add(reading)
        try:
            return await asyncio.wait_for(reading, self._request_seconds)
        except asyncio.TimeoutError as error:
            raise RequestError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"The request was not received in {self._request_seconds:g} s "
                "(--request-seconds)",
            ) from error
        except asyncio.CancelledError:
            if not self._health.is_draining:
                raise
            raise RequestError(
                grpc.StatusCode.UNAVAILABLE, "The server is shutting down"
            ) from None
        finally:
            self._unread.discard(reading)

    async def _predict(self, match: re.Match[str], body: bytes, call: Call) -> bytes:
        process = functools.partial(self._memory.process, len(body))
        with self._versions.use(*_target(match)) as model:
            api = match["api"].lower()
            prediction = await process(
                _read, api, model, body, self._batcher.max_rows, call
            )
            outputs = await self._batcher.run(
                model, prediction.signature, prediction.inputs
            )
            return await process(lambda: _dump(prediction.write(outputs)))

    async def _describe(self, match: re.Match[str], body: bytes, call: Call) -> bytes:
        return _dump(self._tell_versions(match))

    def _tell_versions(self, match: re.Match[str]) -> dict[str, Any]:
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
    return _json(500, {"error": describe_failure(error)})


async def _answer(
    call: Call, request: fastapi.Request, answering: Coroutine[Any, Any, bytes]
) -> fastapi.Response:
    try:
        content = await _while_connected(request, answering)
    except ClientDisconnect:
        return fastapi.Response()  # which nobody gets
    except RequestError as error:
        return _refuse(call, error)
    except Exception:
        call.code = "500"
        raise
    call.code = "200"
    return fastapi.Response(content, media_type="application/json")


async def _while_connected(
    request: fastapi.Request, answering: Coroutine[Any, Any, bytes]
) -> bytes:
    """Returns the result of a coroutine; cancels it when the client leaves.

    Raises:
      ClientDisconnect: The client left.
    """
    task = asyncio.create_task(answering)
    leaving = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        task.cancel()
        leaving.cancel()
        # The model is in use until the task has ended.
        await asyncio.gather(task, leaving, return_exceptions=True)


async def _wait_for_disconnect(request: fastapi.Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refuse(call: Call, error: RequestError) -> fastapi.Response:
    call.code = str(error.http_status)
    return _json(error.http_status, {"error": error.message})


def _refuse_unread(
    call: Call, error: RequestError | ClientDisconnect
) -> fastapi.Response:
    if isinstance(error, ClientDisconnect):
        return fastapi.Response()  # which nobody gets
    response = _refuse(call, error)
    if error.code in _UNREAD:
        response.headers["connection"] = "close"
    return response


def _json(status: int, content: dict[str, Any]) -> fastapi.Response:
    return fastapi.Response(_dump(content), status, media_type="application/json")


def _dump(content: dict[str, Any]) -> bytes:
    # Not FastAPI's, which knows no NaN.
    return json.dumps(content, ensure_ascii=False).encode()


async def _read_body(request: fastapi.Request, reserve: Callable[[int], None]) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) > MAX_BODY_BYTES:
            raise invalid(
                f"The request is larger than {MAX_BODY_BYTES} bytes. Send its rows in "
                "several requests"
            )
        reserve(len(chunk))
        body += chunk
    return bytes(body)


def _read(
    api: str, model: Model, body: bytes, max_rows: int, call: Call
) -> _Prediction:
    document = json_values.parse(body)
    name = json_values.signature_name(document)
    call.signature = _known(model, name)
    if api == "predict":
        return _read_tensors(model, name, document, max_rows)
    rows = examples.serialize(examples.read_input(document, max_rows))
    if api == "classify":
        signature = examples.classification_signature(model, name)
        read, write = examples.read_classes, examples.write_classes
    else:
        signature = examples.regression_signature(model, name)
        read, write = examples.read_values, examples.write_values
    return _Prediction(
        signature,
        {examples.INPUTS: rows},
        lambda outputs: write(read(outputs, len(rows))),
    )


def _read_tensors(
    model: Model, name: str, document: dict[str, Any], max_rows: int
) -> _Prediction:
    signature = model.signatures.get(name or SERVING_DEFAULT)
    if signature is None:
        raise invalid(
            f'Serving signature name: "{name or SERVING_DEFAULT}" not found in '
            "signature def"
        )
    if not signature.inputs:
        raise invalid(f"Failed to get input map for signature: {name or 'DEFAULT'}")
    inputs = json_tensors.read_inputs(document, signature.inputs, max_rows)
    has_rows = json_tensors.INSTANCES in document
    write = json_tensors.write_rows if has_rows else json_tensors.write_columns
    return _Prediction(signature, inputs, write)


def _target(match: re.Match[str]) -> tuple[str, int | None, str | None]:
    if not match["name"]:
        raise invalid("Missing model name in request.")
    if match["version"] is None:
        return match["name"], None, match["label"]
    digits = match["version"].lstrip("0") or "0"
    # Python converts no text of thousands of digits.
    if len(digits) > _MAX_VERSION_DIGITS or int(digits) > _MAX_VERSION:
        raise invalid(f"Failed to convert version: {match['version']} to numeric.")
    return match["name"], int(digits), None


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
