"""The gRPC server: its limits, its services, and the refusal of malformed messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2_grpc
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from serving.health import Health
from serving.limits import RequestLimits
from serving.prediction_service import ModelService, PredictionService
from serving.tokens import Token, TokenInterceptor


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


def build(
    limits: RequestLimits,
    predictions: PredictionService,
    models: ModelService,
    health: Health,
    token: Token | None = None,
) -> grpc.aio.Server:
    """Builds the server, which has no port yet and is not started.

    Args:
      limits: The limits.
      predictions: The prediction service.
      models: The model service.
      health: The readiness of the server.
      token: The token that clients must send; None if they need none.
    """
    interceptors: list[grpc.aio.ServerInterceptor] = [ParsingInterceptor()]
    if token is not None:
        interceptors.insert(0, TokenInterceptor(token))
    # Time to receive a request and to predict. A stalled call ends with its connection.
    milliseconds = round(2 * 1000 * limits.request_seconds)
    server = grpc.aio.server(
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
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        predictions, server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(models, server)
    health_pb2_grpc.add_HealthServicer_to_server(health.servicer, server)
    return server
