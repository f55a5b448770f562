"""Messages of gRPC requests that cannot be parsed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError


class ParsingInterceptor(grpc.aio.ServerInterceptor):
    """Refuses a malformed message with INVALID_ARGUMENT.

    gRPC itself logs a traceback and returns UNKNOWN, as for an Example with a name that
    is not UTF-8.
    """

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Returns the handler of a call, with the parsing inside."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler

        async def answer(request: bytes, context: grpc.aio.ServicerContext) -> Any:
            try:
                message = handler.request_deserializer(request)
            except DecodeError as error:
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"The request cannot be parsed: {error}",
                )
            return await handler.unary_unary(message, context)

        return grpc.unary_unary_rpc_method_handler(
            answer, response_serializer=handler.response_serializer
        )
