"""The token and TLS of the server over gRPC."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from serving.tls import Pem, Tls
from serving.tokens import PROBLEM, Token

# Of gRPC's health service; a `Watch` call would stay open.
_OPEN_METHOD = "/grpc.health.v1.Health/Check"


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses gRPC calls without the token, except health checks.

    Args:
      token: The token.
    """

    def __init__(self, token: Token) -> None:
        self._token = token

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Returns the handler of a call, or one that reads no message and refuses."""
        values = [
            value
            for key, value in handler_call_details.invocation_metadata
            if key == "authorization"
        ]
        is_open = handler_call_details.method == _OPEN_METHOD
        if is_open or (len(values) == 1 and self._token.allows(values[0])):
            return await continuation(handler_call_details)
        return grpc.stream_stream_rpc_method_handler(_refuse)


async def _refuse(requests: Any, context: grpc.aio.ServicerContext) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, PROBLEM)


def credentials(tls: Tls) -> grpc.ServerCredentials:
    """Returns the credentials of TLS, which follow `Tls.refresh`."""
    used = tls.pem

    def take_configuration() -> grpc.ServerCertificateConfiguration | None:
        """Returns a configuration after each change.

        gRPC consumes a configuration, and refuses one that it gets a second time.
        """
        nonlocal used
        if tls.pem is used:
            return None
        used = tls.pem
        return _configuration(used)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(used),
        take_configuration,
        require_client_authentication=used.client_ca is not None,
    )


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(pem.key, pem.certificate)], pem.client_ca
    )
