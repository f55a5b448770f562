"""The server: HTTP, gRPC, the scan for new versions, and the drain at shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Iterator

import grpc
import uvicorn

from serving import discovery, grpc_server, models
from serving.batching import Batcher
from serving.connections import MAX_HEADER_BYTES, limited_protocol
from serving.health import Health
from serving.limits import RequestMemory, clip_to_descriptors
from serving.loaded_versions import LoadedVersions
from serving.monitoring import Metrics
from serving.prediction_service import ModelService, PredictionService
from serving.rest import RestApi
from serving.settings import ServerSettings

logger = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 60
_POLL_SECONDS = 0.05
# For responses that are written, but not yet sent.
_FLUSH_SECONDS = 1.0
# For requests that are partly received when the drain begins.
_ARRIVAL_SECONDS = 2.0


class _HttpServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does not handle signals: uvicorn would raise them again after draining."""
        yield


class Server:
    """A model behind HTTP and gRPC.

    Args:
      settings: The settings.
      source: The model's directory.
      http: The socket to accept HTTP connections on.

    Attributes:
      metrics: The metrics.
      grpc_port: The gRPC port; None before it is open, or if gRPC is off.
    """

    def __init__(
        self, settings: ServerSettings, source: discovery.Source, http: socket.socket
    ) -> None:
        self._settings = settings
        self._socket = http
        self.metrics = Metrics()
        self.grpc_port: int | None = None
        self._versions = LoadedVersions(
            source,
            models.load,
            self.metrics,
            keep=settings.keep_versions,
            labels=settings.labels,
        )
        self._batcher = Batcher(settings.batching, self.metrics)
        self._health = Health(self._versions)
        self._memory = RequestMemory(clip_to_descriptors(settings.limits))
        self._rest = RestApi(
            self._versions, self._batcher, self.metrics, self._health, self._memory
        )

    async def run(self, stop: asyncio.Event) -> bool:
        """Serves until an event is set.

        Args:
          stop: The event; starts the drain.

        Returns:
          Whether all requests in flight were finished.
        """
        http = self._build_http()
        serving = asyncio.create_task(http.serve(sockets=[self._socket]))
        rpc = None
        if self._settings.grpc_port is not None:
            rpc = await self._start_grpc(self._settings.grpc_port)
        self._log_addresses()
        watching = asyncio.create_task(self._watch())
        stopping = asyncio.create_task(stop.wait())
        # Also ends if HTTP or the scan fails.
        await asyncio.wait(
            (serving, watching, stopping), return_when=asyncio.FIRST_COMPLETED
        )
        watching.cancel()
        is_drained = await self._drain(http, serving, rpc)
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        return is_drained

    def _log_addresses(self) -> None:
        host, name = self._settings.host, self._versions.name
        address = _address(host, self._socket.getsockname()[1])
        rpc = "off" if self.grpc_port is None else _address(host, self.grpc_port)
        logger.info("serving %s at http://%s, gRPC %s", name, address, rpc)

    def _build_http(self) -> _HttpServer:
        settings = self._settings
        return _HttpServer(
            uvicorn.Config(
                self._rest.application(settings.host, settings.allowed_hosts),
                http=limited_protocol(self._memory.limits, self.metrics),
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=settings.drain_seconds,  # type: ignore[arg-type]
            )
        )

    async def _start_grpc(self, port: int) -> grpc.aio.Server:
        server = grpc_server.build(
            self._memory.limits,
            PredictionService(
                self._versions, self._batcher, self.metrics, self._memory
            ),
            ModelService(self._versions, self.metrics),
            self._health,
        )
        address = _address(self._settings.host, port)
        self.grpc_port = self._rest.grpc_port = server.add_insecure_port(address)
        await server.start()
        return server

    async def _watch(self) -> None:
        is_logged = False
        while True:
            try:
                await self._versions.refresh()
            except OSError as error:  # a file was deleted during the scan
                logger.warning("cannot read %s: %s", self._settings.model, error)
            await self._health.publish()
            if not is_logged and self._health.is_ready:
                logger.info("ready")
                is_logged = True
            await asyncio.sleep(self._settings.poll_seconds)

    async def _drain(
        self,
        http: _HttpServer,
        serving: asyncio.Task[None],
        rpc: grpc.aio.Server | None,
    ) -> bool:
        """Accepts nothing new; returns whether requests in flight were finished."""
        logger.info("draining: %d requests in flight", self.metrics.in_flight)
        self._health.is_draining = True
        await self._health.publish()
        http.should_exit = True
        closing = None
        if rpc is not None:
            closing = asyncio.create_task(rpc.stop(self._settings.drain_seconds))
        await self._stop_reading()
        is_drained = await self._wait_until_idle()
        await serving
        if rpc is not None and closing is not None:
            # Watchers of the health service would stay until the end of the drain.
            await rpc.stop(_FLUSH_SECONDS)
            await closing
        logger.info("stopped")
        return is_drained

    async def _stop_reading(self) -> None:
        """Waits a moment for requests that are partly received, then refuses them."""
        seconds = min(_ARRIVAL_SECONDS, self._settings.drain_seconds)
        deadline = time.monotonic() + seconds
        while self._rest.is_reading and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        self._rest.stop_reading()

    async def _wait_until_idle(self) -> bool:
        deadline = time.monotonic() + self._settings.drain_seconds
        while self.metrics.in_flight:
            if time.monotonic() > deadline:
                logger.error(
                    "%d requests were not finished in %g s (--drain-seconds)",
                    self.metrics.in_flight,
                    self._settings.drain_seconds,
                )
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
