"""The gRPC server: its limits, its services, and the refusal of malformed messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from serving.limits import RequestLimits
from serving.saved_models import grpc_security
from serving.saved_models.grpc_security import TokenInterceptor
from serving.saved_models.prediction_service import ModelService, PredictionService
from serving.server import Shared, format_address
from serving.tokens import Token

_SERVICES = (
    health.OVERALL_HEALTH,
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
)


class ParsingInterceptor(grpc.aio.ServerInterceptor):
    """Refuses a malformed message with INVALID_ARGUMENT.

    gRPC itself logs a traceback and returns UNKNOWN, for example if a string is not
    UTF-8.
    """

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Returns the handler of a call, which parses the message itself."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler

        async def parse(request: bytes, context: grpc.aio.ServicerContext) -> Any:
            try:
                message = handler.request_deserializer(request)
            except DecodeError as error:
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"The request cannot be parsed: {error}",
                )
            return await handler.unary_unary(message, context)

        return grpc.unary_unary_rpc_method_handler(
            parse, response_serializer=handler.response_serializer
        )


class GrpcServer:
    """The gRPC protocol of a server; see `serving.server.Front`.

    Args:
      shared: What it shares with the REST API.
      port: The port; 0 picks a free one.

    Attributes:
      port: The open port.
    """

    def __init__(self, shared: Shared, port: int) -> None:
        settings = shared.settings
        self._health = health.aio.HealthServicer()
        self._server = _build(shared.memory.limits, settings.token)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(shared), self._server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(shared.versions, shared.metrics), self._server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        address = format_address(settings.host, port)
        if settings.tls is None:
            self.port = self._server.add_insecure_port(address)
        else:
            credentials = grpc_security.credentials(settings.tls)
            self.port = self._server.add_secure_port(address, credentials)

    async def start(self) -> None:
        """Accepts calls."""
        await self._server.start()

    async def publish(self, is_ready: bool) -> None:
        """Updates the health service and its watchers."""
        statuses = health_pb2.HealthCheckResponse
        status = statuses.SERVING if is_ready else statuses.NOT_SERVING
        for service in _SERVICES:
            await self._health.set(service, status)

    async def stop(self, seconds: float) -> None:
        """Refuses new calls, and cancels those that run longer than some seconds."""
        await self._server.stop(seconds)


def _build(limits: RequestLimits, token: Token | None) -> grpc.aio.Server:
    interceptors: list[grpc.aio.ServerInterceptor] = [ParsingInterceptor()]
    if token is not None:
        interceptors.insert(0, TokenInterceptor(token))
    # Time to receive a request and to predict. A stalled call ends with its connection.
    milliseconds = round(2 * 1000 * limits.request_seconds)
    return grpc.aio.server(
        interceptors=interceptors,
        maximum_concurrent_rpcs=limits.max_connections,
        options=(
            # By default a second server could listen on the same port.
            ("grpc.so_reuseport", 0),
            # gRPC's default. gRPC parses a message on the event loop, 0.1 s for 4 MiB
            # of empty strings, and holds it in memory before it is counted.
            ("grpc.max_receive_message_length", 4 << 20),
            ("grpc.max_send_message_length", -1),
            # A compressed message of kilobytes could expand to megabytes. The first bit
            # of the set is `identity`, no compression.
            ("grpc.compression_enabled_algorithms_bitset", 1),
            ("grpc.max_allowed_incoming_connections", limits.max_connections),
            ("grpc.max_concurrent_streams", 64),  # per connection
            # Idle connections would use up the file descriptors.
            ("grpc.server_handshake_timeout_ms", round(1000 * limits.header_seconds)),
            ("grpc.max_connection_idle_ms", 300_000),
            ("grpc.max_connection_age_ms", milliseconds),
            ("grpc.max_connection_age_grace_ms", milliseconds),
        ),
    )
