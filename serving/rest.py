"""TensorFlow Serving's REST API, with health checks, metrics and a page to try it."""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import fastapi
import prometheus_client
from starlette.requests import ClientDisconnect

from serving import (
    abstention,
    access,
    discovery,
    json_requests,
    json_responses,
    model_files,
    openapi,
    page,
    tokens,
)
from serving.batching import Batcher
from serving.errors import (
    Code,
    RequestError,
    describe_failure,
    invalid,
    not_found,
    only_predict,
)
from serving.head_requests import HeadMiddleware
from serving.health import Health
from serving.limits import RequestMemory, limit_time
from serving.loaded_versions import LoadedVersions, Version
from serving.model_facts import ModelFacts
from serving.monitoring import REST, Call, Metrics
from serving.row_queue import Observer
from serving.signatures import (
    DEFAULT_SIGNATURE,
    SIGNATURE_DEF,
    Signature,
    Tensors,
)

MAX_BODY_BYTES = 64 << 20
_TARGET = (
    rf"(?i)/v1/models/(?P<name>{discovery.NAME})"
    rf"(?:/versions/0*(?P<version>[0-9]{{1,19}})|/labels/(?P<label>{discovery.NAME}))?"
)
_PREDICTION = re.compile(rf"{_TARGET}:(?P<api>classify|regress|predict)")
_DESCRIPTION = re.compile(rf"{_TARGET}(?:/(?P<api>metadata|card))?")


class RestApi:
    """Handles HTTP requests.

    Attributes:
      grpc_port: The gRPC port that the page names; None if gRPC is off.
    """

    def __init__(
        self,
        versions: LoadedVersions,
        batcher: Batcher,
        metrics: Metrics,
        health: Health,
        memory: RequestMemory,
        observers: Sequence[Observer],
    ) -> None:
        self._versions = versions
        self._batcher = batcher
        self._metrics = metrics
        self._health = health
        self._memory = memory
        self._observers = observers
        self._unread: set[asyncio.Task[bytes]] = set()
        self._needs_token = False
        self.grpc_port: int | None = None

    def application(
        self,
        host: str = "127.0.0.1",
        allowed_hosts: Sequence[str] = (),
        token: tokens.Token | None = None,
    ) -> fastapi.FastAPI:
        """Returns the ASGI application.

        Args:
          host: The address that the server listens on.
          allowed_hosts: Further host names of the server.
          token: The token that clients must send; None if they need none.
        """
        # FastAPI's documentation pages would load scripts from other sites.
        app = fastapi.FastAPI(docs_url=None, redoc_url=None)
        self._needs_token = token is not None
        if token is not None:
            app.add_middleware(tokens.TokenMiddleware, token=token)
        app.add_middleware(
            access.AccessMiddleware, host=host, allowed_hosts=allowed_hosts
        )
        app.add_middleware(page.HeadersMiddleware)
        app.add_middleware(HeadMiddleware)
        app.get("/", **openapi.PAGE)(self._page)
        app.get("/card", **openapi.CARD_PAGE)(self._card_page)
        app.mount("/page", page.files())
        app.get(access.ALIVE_PATH, **openapi.ALIVE)(_alive)
        app.get(access.READY_PATH, **openapi.READY)(self._ready)
        app.get("/metrics", **openapi.METRICS)(self._prometheus)
        app.get("/monitoring/prometheus/metrics", **openapi.TF_SERVING_METRICS)(
            self._prometheus
        )
        for method, path, operation in openapi.MODEL_OPERATIONS:
            app.api_route(path, methods=[method], **operation)(self._process)
        # Every other request gets TensorFlow Serving's error.
        app.api_route(
            "/v1/{path:path}",
            methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
            include_in_schema=False,
        )(self._process)
        document = openapi.describe(
            app.routes,
            self._versions.name,
            labels=self._versions.labels,
            needs_token=self._needs_token,
        )
        app.openapi = functools.partial(  # type: ignore[method-assign]
            openapi.with_schemas, document, self._versions
        )
        app.exception_handler(404)(_not_found)
        app.exception_handler(RequestError)(_refuse)
        app.exception_handler(ClientDisconnect)(_ignore)
        app.exception_handler(Exception)(_fail)
        return app

    @property
    def is_reading(self) -> bool:
        """Whether requests are partly received."""
        return bool(self._unread)

    def stop_reading(self) -> None:
        """Refuses the requests that are partly received."""
        for reading in self._unread:
            reading.cancel()

    async def _process(self, request: fastapi.Request) -> fastapi.Response:
        path = request.scope["path"]  # `request.url` encodes or cuts a decoded ? and #
        if request.method == "POST" and (match := _PREDICTION.fullmatch(path)):
            api, respond = match["api"].lower(), self._predict
        elif request.method == "GET" and (match := _DESCRIPTION.fullmatch(path)):
            api, respond = (match["api"] or "status").lower(), self._describe
        else:
            match, api, respond = None, "unknown", self._describe
        with self._memory.reserve() as reserve:
            try:
                if match is None:
                    raise invalid(got=f"there is no API {request.method} {path}")
                body = await self._receive(request, reserve)
                request.state.is_received = True
            except (RequestError, ClientDisconnect) as error:
                with self._metrics.call(REST, api):
                    raise error
            # A request is in flight only now, so that a slow upload delays no drain.
            with self._metrics.call(REST, api) as call:
                response = limit_time(
                    respond(match, body, call), self._memory.limits.request_seconds
                )
                content = await _while_connected(request, response)
            media_type = openapi.MARKDOWN if api == "card" else access.JSON
            return fastapi.Response(content, media_type=media_type)

    async def _receive(
        self, request: fastapi.Request, reserve: Callable[[int], None]
    ) -> bytes:
        reading = asyncio.create_task(_read_body(request, reserve))
        self._unread.add(reading)
        try:
            return await limit_time(reading, self._memory.limits.request_seconds)
        except asyncio.CancelledError:
            if not self._health.is_draining:
                raise
            raise RequestError(
                Code.UNAVAILABLE, got="the server is shutting down"
            ) from None
        finally:
            self._unread.discard(reading)

    async def _predict(self, match: re.Match[str], body: bytes, call: Call) -> bytes:
        if match["api"].lower() != "predict":
            raise only_predict()
        process = functools.partial(self._memory.process, len(body))
        with self._versions.use(*_target(match)) as model:
            signature, inputs, write, min_probability = await process(
                _read_request, model, body, self._batcher.max_rows, call
            )
            outputs = await self._batcher.run(model, signature, inputs)
            for observer in self._observers:
                observer.offer(model, signature, inputs, outputs)
            shown: Tensors = outputs
            if min_probability is not None:
                shown, abstained = abstention.abstain(outputs, min_probability)
                self._metrics.abstained_rows.inc(abstained)
            return await process(lambda: _dump(write(shown)))

    async def _describe(self, match: re.Match[str], body: bytes, call: Call) -> bytes:
        name, version, label = _target(match)
        if match["api"] is None:
            versions = self._versions.describe(name, version, label)
            return _dump({"model_version_status": list(map(_status, versions))})
        with self._versions.use(name, version, label) as model:
            if match["api"].lower() == "card":
                return await asyncio.to_thread(_read_card, model)
            spec = {"name": name, "signature_name": "", "version": str(model.version)}
            metadata = await asyncio.to_thread(_metadata, model)
            return _dump({"model_spec": spec, "metadata": metadata})

    async def _page(self) -> fastapi.Response:
        return page.render(
            model=self._versions.name,
            signature=DEFAULT_SIGNATURE,
            grpc_port=str(self.grpc_port or ""),
            needs_token="yes" if self._needs_token else "",
        )

    async def _card_page(self) -> fastapi.Response:
        with self._versions.use(self._versions.name) as model:
            return await asyncio.to_thread(_render_card, self._versions.name, model)

    async def _ready(self) -> fastapi.Response:
        if self._health.is_ready:
            return _json(200, {"status": "ready"})
        reason = "draining" if self._health.is_draining else "no version is loaded"
        return _json(503, {"status": reason})

    async def _prometheus(self) -> fastapi.Response:
        return fastapi.Response(
            self._metrics.text(), media_type=prometheus_client.CONTENT_TYPE_LATEST
        )


async def _alive() -> fastapi.Response:
    return _json(200, {"status": "alive"})


async def _not_found(request: fastapi.Request, error: Exception) -> fastapi.Response:
    return _json(404, {"error": f"Not found: {request.url.path}"})


async def _refuse(request: fastapi.Request, error: RequestError) -> fastapi.Response:
    response = _json(error.http_status, {"error": error.message})
    is_received = getattr(request.state, "is_received", False)
    # The rest of a request that was too slow, or that the drain refused, is not read.
    closing = (Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE)
    if error.code in closing and not is_received:
        response.headers["connection"] = "close"
    return response


async def _ignore(request: fastapi.Request, error: Exception) -> fastapi.Response:
    return fastapi.Response()  # the client disconnected


async def _fail(request: fastapi.Request, error: Exception) -> fastapi.Response:
    return _json(500, {"error": describe_failure(error)})


async def _while_connected(
    request: fastapi.Request, response: Coroutine[Any, Any, bytes]
) -> bytes:
    """Awaits a response; cancels it if the client disconnects.

    Raises:
      ClientDisconnect: The client disconnected.
    """
    task = asyncio.create_task(response)
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


def _json(status: int, content: dict[str, Any]) -> fastapi.Response:
    return fastapi.Response(_dump(content), status, media_type=access.JSON)


def _dump(content: dict[str, Any]) -> bytes:
    # Starlette's JSONResponse refuses NaN.
    return json.dumps(content, ensure_ascii=False).encode()


async def _read_body(request: fastapi.Request, reserve: Callable[[int], None]) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) > MAX_BODY_BYTES:
            raise invalid(
                got="the request is too large",
                allowed=f"at most {MAX_BODY_BYTES} bytes",
                advice="send its rows in several requests",
            )
        reserve(len(chunk))
        body += chunk
    return bytes(body)


def _read_request(
    model: ModelFacts, body: bytes, max_rows: int, call: Call
) -> tuple[Signature, Tensors, Callable[[Tensors], dict[str, Any]], float | None]:
    """Reads a request.

    Returns:
      The signature, its inputs, the function that writes its outputs, and the least
      probability of a class or None.
    """
    document = json_requests.parse(body)
    name = json_requests.signature_name(document)
    call.signature = name if name in model.signatures else "unknown"
    signature = model.find_signature(name)
    min_probability = abstention.read_min_probability(document, signature)
    inputs = json_requests.read_inputs(document, signature.inputs, max_rows)
    has_rows = json_requests.INSTANCES in document
    write = json_responses.write_rows if has_rows else json_responses.write_columns
    return signature, inputs, write, min_probability


def _target(match: re.Match[str]) -> tuple[str, int | None, str | None]:
    """Returns the name, the version and the label of the model of a request."""
    version = match["version"]
    return match["name"], None if version is None else int(version), match["label"]


def _status(version: Version) -> dict[str, Any]:
    return {
        "version": str(version.number),
        "state": version.state.name,
        "status": {
            "error_code": "INTERNAL" if version.error else "OK",
            "error_message": version.error or "",
        },
    }


def _metadata(model: ModelFacts) -> dict[str, Any]:
    metadata: dict[str, Any] = {SIGNATURE_DEF: model.signature_metadata}
    if model.text_columns is not None:
        metadata["text_columns"] = model.text_columns
    return {**metadata, **model.description, "has_card": model.card.is_file()}


def _read_card(model: ModelFacts) -> bytes:
    card = model_files.read_card(model.card)
    if card is None:
        raise not_found(
            f"Version {model.version} has no model card ({model.card.name})"
        )
    return card


def _render_card(name: str, model: ModelFacts) -> fastapi.Response:
    text = _read_card(model).decode("utf-8-sig", "replace")
    return page.render_card(name, model.version, text)
