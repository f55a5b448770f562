"""Starts the server, watches for versions, and drains it when told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import uvicorn
import uvloop

from serving import discovery
from serving.batching import Batcher, BatchingSettings
from serving.connections import limited_protocol
from serving.errors import SettingsError, is_invalid
from serving.health import Health
from serving.limits import RequestLimits, RequestMemory
from serving.messages import ParsingInterceptor
from serving.metrics import Metrics
from serving.versions import Versions

if TYPE_CHECKING:
    from serving.models import Model
    from serving.rest import RestApi

logger = logging.getLogger(__name__)

EXIT_NOT_DRAINED = 1
_BACKLOG = 2048
# gRPC parses a message on the event loop, 0.1 s for as many empty strings, and holds it
# in memory before it is counted. It is gRPC's default.
_MAX_MESSAGE_BYTES = 4 << 20
_MAX_STREAMS = 64  # of a connection
_NO_COMPRESSION = 1  # a set of bits, of which the first is `identity`
_GRPC_IDLE_MILLISECONDS = 300_000
_POLL_SECONDS = 0.05
# For answers that are written, but not yet sent.
_FLUSH_SECONDS = 1.0
# For requests of which a part was sent before the end.
_ARRIVAL_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """How a model is served.

    Attributes:
      model: A directory of versions, or a SavedModel.
      name: The model's name in requests; None is the directory's.
      host: Address to listen on.
      port: Of HTTP; 0 takes a free one.
      grpc_port: Of gRPC; 0 takes a free one, None turns gRPC off.
      batching: How requests are joined.
      poll_seconds: How often the directory is looked at.
      keep_versions: How many of the newest versions stay in memory.
      labels: Names of versions, which stay in memory too.
      drain_seconds: How long requests in flight are waited for.
      limits: What requests may use.
      allowed_hosts: Hosts that browsers may use besides the address itself, or `*.` and
        a domain.
    """

    model: Path
    name: str | None = None
    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int | None = 8500
    batching: BatchingSettings = dataclasses.field(default_factory=BatchingSettings)
    poll_seconds: float = 1.0
    keep_versions: int = 1
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    drain_seconds: float = 30.0
    limits: RequestLimits = dataclasses.field(default_factory=RequestLimits)
    allowed_hosts: tuple[str, ...] = ()


def serve(settings: ServerSettings) -> None:
    """Serves a model until SIGTERM or SIGINT.

    Ends the process with exit status 1 if the time to answer the requests in flight
    runs out.

    Args:
      settings: What and how.

    Raises:
      SettingsError: There is no SavedModel, or a port cannot be listened on.
    """
    source = discovery.find_model(settings.model, settings.name)
    with contextlib.ExitStack() as sockets:
        # Before TensorFlow is loaded, which takes long.
        http = sockets.enter_context(listen(settings.host, settings.port, "--port"))
        if settings.grpc_port:
            # gRPC opens its own, and does not say clearly why it could not.
            listen(settings.host, settings.grpc_port, "--grpc-port").close()
        server = Server(settings, source, http)
        is_drained = uvloop.run(_serve(server))
    # Python would wait for threads that load a version, parse a request or predict, and
    # cannot end them.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if is_drained else EXIT_NOT_DRAINED)


async def _serve(server: Server) -> bool:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await server.run(stop)


class _HttpServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Leaves signals to us: uvicorn raises them again after it has drained."""
        yield


class Server:
    """A model behind HTTP and gRPC.

    Attributes:
      metrics: What Prometheus is told.
      grpc_port: Where gRPC is; None while it is not, or if it is off.
    """

    def __init__(
        self, settings: ServerSettings, source: discovery.Source, http: socket.socket
    ) -> None:
        """Starts nothing yet.

        Args:
          settings: What is served, and how.
          source: Where the model's versions come from.
          http: What HTTP is listened for on.
        """
        self._settings = settings
        self._socket = http
        self.metrics = Metrics()
        self.grpc_port: int | None = None
        self._versions = Versions(
            source,
            _load,
            self.metrics,
            keep=settings.keep_versions,
            labels=settings.labels,
        )
        self._limits = _clip_to_descriptors(settings.limits)
        self._batcher = Batcher(settings.batching, self.metrics)
        self._health = Health(self._versions)
        self._memory = RequestMemory(self._limits)
        self._rest: RestApi | None = None

    async def run(self, stop: asyncio.Event) -> bool:
        """Serves until it is told to stop.

        Args:
          stop: Set to drain.

        Returns:
          Whether everything in flight was answered.
        """
        rpc = self._open_grpc()
        http = self._build_http()
        serving = asyncio.create_task(http.serve(sockets=[self._socket]))
        if rpc is not None:
            await self._start_grpc(rpc)
        self._tell_addresses()
        watching = asyncio.create_task(self._watch())
        stopping = asyncio.create_task(stop.wait())
        # Whichever ends first: it is stopped, or one of the others fails.
        await asyncio.wait(
            (serving, watching, stopping), return_when=asyncio.FIRST_COMPLETED
        )
        watching.cancel()
        is_drained = await self._drain(http, serving, rpc)
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        return is_drained

    def _tell_addresses(self) -> None:
        host, name = self._settings.host, self._versions.name
        address = _address(host, self._socket.getsockname()[1])
        rpc = "off" if self.grpc_port is None else _address(host, self.grpc_port)
        logger.info("serving %s at http://%s, gRPC %s", name, address, rpc)

    def _build_http(self) -> _HttpServer:
        from serving.rest import RestApi

        settings = self._settings
        self._rest = RestApi(
            self._versions,
            self._batcher,
            self.metrics,
            self._health,
            self._memory,
            request_seconds=self._limits.request_seconds,
        )
        return _HttpServer(
            uvicorn.Config(
                self._rest.application(settings.host, settings.allowed_hosts),
                http=limited_protocol(self._limits, self.metrics),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_keep_alive=60,
                timeout_graceful_shutdown=settings.drain_seconds,  # type: ignore[arg-type]
            )
        )

    def _open_grpc(self) -> grpc.aio.Server | None:
        settings, limits = self._settings, self._limits
        if settings.grpc_port is None:
            return None
        server = grpc.aio.server(
            interceptors=(ParsingInterceptor(),),
            maximum_concurrent_rpcs=limits.max_connections,
            options=_grpc_options(limits),
        )
        address = _address(settings.host, settings.grpc_port)
        self.grpc_port = server.add_insecure_port(address)
        return server

    async def _start_grpc(self, server: grpc.aio.Server) -> None:
        from grpc_health.v1 import health_pb2_grpc
        from tensorflow_serving.apis import (
            model_service_pb2_grpc,
            prediction_service_pb2_grpc,
        )

        from serving.prediction_service import ModelService, PredictionService

        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(
                self._versions,
                self._batcher,
                self.metrics,
                self._memory,
                request_seconds=self._limits.request_seconds,
            ),
            server,
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(self._versions, self.metrics), server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, server)
        await server.start()

    async def _watch(self) -> None:
        is_told = False
        while True:
            try:
                await self._versions.refresh()
            except OSError as error:  # of a file that goes while it is looked at
                logger.warning("cannot read %s: %s", self._settings.model, error)
            await self._health.publish()
            if not is_told and self._health.is_ready:
                logger.info("ready")
                is_told = True
            await asyncio.sleep(self._settings.poll_seconds)

    async def _drain(
        self, http: _HttpServer, serving: asyncio.Task, rpc: grpc.aio.Server | None
    ) -> bool:
        """Takes nothing new, and tells whether everything in flight was answered."""
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
            # Watchers of the health protocol would stay as long as they may.
            await rpc.stop(_FLUSH_SECONDS)
            await closing
        logger.info("stopped")
        return is_drained

    async def _stop_reading(self) -> None:
        """Waits a moment for requests that still arrive, then refuses them."""
        assert self._rest is not None
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
                    "%d requests were not answered in %g s (--drain-seconds)",
                    self.metrics.in_flight,
                    self._settings.drain_seconds,
                )
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True


def _clip_to_descriptors(limits: RequestLimits) -> RequestLimits:
    """Leaves half of the file descriptors for models, gRPC and the rest."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = max(1, descriptors // 2)
    if descriptors == resource.RLIM_INFINITY or connections >= limits.max_connections:
        return limits
    logger.warning(
        "--max-connections %d is more than half of `ulimit -n` (%d); the limit is %d. "
        "Raise `ulimit -n` for more",
        limits.max_connections,
        descriptors,
        connections,
    )
    return dataclasses.replace(limits, max_connections=connections)


def _grpc_options(limits: RequestLimits) -> tuple[tuple[str, int], ...]:
    # Time to receive a request and to predict. A stalled one ends with its connection.
    milliseconds = round(2 * 1000 * limits.request_seconds)
    return (
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", -1),
        # A message of kilobytes would become megabytes before it is counted.
        ("grpc.compression_enabled_algorithms_bitset", _NO_COMPRESSION),
        ("grpc.max_allowed_incoming_connections", limits.max_connections),
        ("grpc.max_concurrent_streams", _MAX_STREAMS),
        # Connections that send nothing would use up the file descriptors.
        ("grpc.server_handshake_timeout_ms", round(1000 * limits.header_seconds)),
        ("grpc.max_connection_idle_ms", _GRPC_IDLE_MILLISECONDS),
        ("grpc.max_connection_age_ms", milliseconds),
        ("grpc.max_connection_age_grace_ms", milliseconds),
    )


def _load(directory: Path, version: int) -> Model:
    from serving.models import Model

    model = Model(directory, version)
    problems = model.warm_up()
    for name, problem in problems.items():
        logger.warning("version %d: signature %s fails: %s", version, name, problem)
    # A signature may refuse a made-up row, as one that is no picture, and serve others.
    broken = {name for name, problem in problems.items() if not is_invalid(problem)}
    if broken and broken == model.signatures.keys():
        raise RuntimeError(f"no signature of version {version} can be run")
    return model


def listen(host: str, port: int, option: str) -> socket.socket:
    """Opens a port.

    Args:
      host: An address of this machine.
      port: 0 takes a free one.
      option: What the user chose the port with.

    Raises:
      SettingsError: It cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {_address(host, port)}: {error.strerror or error}; "
            f"give another address with --host and {option}"
        ) from error


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
