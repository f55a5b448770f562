"""The server: HTTP, the scan for new versions, and the drain at shutdown.

Another protocol, gRPC, may serve the same versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import uvicorn

from serving import access, discovery
from serving.batching import Batcher
from serving.connections import limited_protocol
from serving.health import Health
from serving.limits import RequestMemory, clip_to_descriptors
from serving.loaded_versions import LoadedVersions
from serving.model_facts import ServedModel
from serving.monitoring import Metrics
from serving.rest import RestApi
from serving.row_queue import Observer
from serving.sampling import Sampler
from serving.settings import ServerSettings
from serving.text_checks import TextChecks

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class Shared:
    """What the protocols of a server share.

    Attributes:
      settings: The settings.
      versions: The loaded versions.
      batcher: Joins requests.
      metrics: The metrics.
      memory: The memory and the limits of requests.
      observers: They get the rows and outputs of requests.
    """

    settings: ServerSettings
    versions: LoadedVersions
    batcher: Batcher
    metrics: Metrics
    memory: RequestMemory
    observers: Sequence[Observer]


class Front(Protocol):
    """A protocol of a server besides HTTP: gRPC. It has an open port from the start."""

    port: int

    async def start(self) -> None:
        """Accepts calls."""

    async def publish(self, is_ready: bool) -> None:
        """Reports whether the server accepts requests."""

    async def stop(self, seconds: float) -> None:
        """Refuses new calls, and cancels those that run longer than some seconds."""


class _HttpServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does not handle signals: uvicorn would raise them again after draining."""
        yield


class Server:
    """A model behind HTTP and, optionally, gRPC.

    Args:
      settings: The settings.
      source: The model's directory.
      http: The socket to accept HTTP connections on.
      load: Loads a directory as a version and warms it up.
      open_grpc: Returns gRPC with an open port; None to serve HTTP only.

    Attributes:
      metrics: The metrics.
      grpc_port: The gRPC port; None before it is open, or if gRPC is off.
      versions: The loaded versions.
    """

    def __init__(
        self,
        settings: ServerSettings,
        source: discovery.Source,
        http: socket.socket,
        load: Callable[[Path, int], ServedModel],
        open_grpc: Callable[[Shared], Front] | None = None,
    ) -> None:
        self._settings = settings
        self._socket = http
        self._open_grpc = open_grpc
        self.metrics = Metrics()
        self.grpc_port: int | None = None
        self.versions = LoadedVersions(
            source,
            load,
            self.metrics,
            keep=settings.keep_versions,
            labels=settings.labels,
        )
        self._batcher = Batcher(settings.batching, self.metrics)
        self._health = Health(self.versions)
        self._memory = RequestMemory(clip_to_descriptors(settings.limits))
        self._observers: list[Observer] = []
        if settings.sampling is not None:
            self._observers.append(Sampler(settings.sampling, self.metrics))
        if settings.check_rate:
            self._observers.append(TextChecks(settings.check_rate, self.metrics))
        self._rest = RestApi(
            self.versions,
            self._batcher,
            self.metrics,
            self._health,
            self._memory,
            self._observers,
        )

    async def run(self, stop: asyncio.Event) -> bool:
        """Serves until an event is set.

        Args:
          stop: The event; starts the drain.

        Returns:
          Whether all requests in flight were finished.
        """
        settings, limits = self._settings, self._memory.limits
        http = _HttpServer(
            uvicorn.Config(
                self._rest.application(
                    settings.host, settings.allowed_hosts, settings.token
                ),
                http=limited_protocol(limits, self.metrics, settings.tls),  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_keep_alive=60,
                timeout_graceful_shutdown=settings.drain_seconds,  # type: ignore[arg-type]
            )
        )
        serving = asyncio.create_task(http.serve(sockets=[self._socket]))
        rpc: Front | None = None
        if self._open_grpc is not None:
            rpc = self._open_grpc(
                Shared(
                    settings,
                    self.versions,
                    self._batcher,
                    self.metrics,
                    self._memory,
                    self._observers,
                )
            )
            self._rest.grpc_port = self.grpc_port = rpc.port
            self._health.listeners.append(rpc.publish)
            await rpc.start()
        name, host = self.versions.name, settings.host
        http_address = format_address(host, self._socket.getsockname()[1])
        rpc_address = format_address(host, self.grpc_port) if self.grpc_port else "off"
        scheme = "http" if settings.tls is None else "https"
        logger.info(
            "serving %s at %s://%s, gRPC %s", name, scheme, http_address, rpc_address
        )
        security = {"--token-file": settings.token, "--tls-cert": settings.tls}
        missing = [option for option, value in security.items() if value is None]
        if missing and not access.is_loopback(host):
            logger.warning(
                "other machines can reach %s without %s; a proxy must provide it",
                host,
                " and ".join(missing),
            )
        watching = asyncio.create_task(self._watch())
        stopping = asyncio.create_task(stop.wait())
        # Also ends if HTTP or the scan fails.
        await asyncio.wait(
            (serving, watching, stopping), return_when=asyncio.FIRST_COMPLETED
        )
        watching.cancel()
        try:
            is_drained = await self._drain(http, serving, rpc)
        finally:
            await asyncio.gather(
                *(asyncio.to_thread(observer.close) for observer in self._observers)
            )
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        return is_drained

    async def _watch(self) -> None:
        is_logged = False
        while True:
            try:
                await self.versions.refresh()
            except OSError as error:  # a file was deleted during the scan
                logger.warning("cannot read %s: %s", self._settings.model, error)
            if self._settings.tls is not None:
                self._settings.tls.refresh()
            await self._health.publish()
            if not is_logged and self._health.is_ready:
                logger.info("ready")
                is_logged = True
            await asyncio.sleep(self._settings.poll_seconds)

    async def _drain(
        self,
        http: _HttpServer,
        serving: asyncio.Task[None],
        rpc: Front | None,
    ) -> bool:
        """Finishes the requests in flight; returns whether all ended in time."""
        logger.info("draining: %d requests in flight", self.metrics.in_flight)
        self._health.is_draining = True
        await self._health.publish()
        http.should_exit = True
        closing = None
        if rpc is not None:
            closing = asyncio.create_task(rpc.stop(self._settings.drain_seconds))
        # Requests that are partly received have a moment to arrive.
        seconds = min(2.0, self._settings.drain_seconds)
        deadline = time.monotonic() + seconds
        while self._rest.is_reading and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        self._rest.stop_reading()
        is_drained = True
        deadline = time.monotonic() + self._settings.drain_seconds
        while self.metrics.in_flight:
            if time.monotonic() > deadline:
                logger.error(
                    "%d requests were not finished in %g s (--drain-seconds)",
                    self.metrics.in_flight,
                    self._settings.drain_seconds,
                )
                is_drained = False
                break
            await asyncio.sleep(_POLL_SECONDS)
        await serving
        if rpc is not None and closing is not None:
            # Watchers of the health service would stay until the end of the drain. One
            # second is for responses that are written, but not yet sent.
            await rpc.stop(1.0)
            await closing
        logger.info("stopped")
        return is_drained


def format_address(host: str, port: int) -> str:
    """Returns an address and a port as one word."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
