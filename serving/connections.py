"""HTTP connections: how many there are, and how long they may be silent."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class LimitedProtocol(HttpToolsProtocol):
    """Closes connections above a limit, and those that send no whole headers.

    uvicorn waits without an end for the first request of a connection, and
    `limit_concurrency` keeps the connections that it refuses open until they send one.

    Attributes:
      max_connections: Connections open at once.
      header_seconds: Time to send the headers of a request, from the beginning of the
        connection or the first byte after a response.
    """

    max_connections: int
    header_seconds: float

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]
        self, transport: asyncio.Transport
    ) -> None:
        """Refuses the connection, or waits for its first headers."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            transport.write(_REFUSAL)
            transport.close()
        else:
            self._watch_headers()

    def data_received(self, data: bytes) -> None:
        """Reads a part of a request."""
        super().data_received(data)
        self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops waiting."""
        super().connection_lost(exc)
        self._stop_timer()

    def _watch_headers(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._header_timer is None and not self.transport.is_closing():
            self._header_timer = self.loop.call_later(
                self.header_seconds, self._close_if_waiting
            )

    def _close_if_waiting(self) -> None:
        self._header_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


def limited_protocol(
    max_connections: int, header_seconds: float
) -> type[LimitedProtocol]:
    """Returns the protocol with its limits, as uvicorn makes it without arguments."""
    limits = {"max_connections": max_connections, "header_seconds": header_seconds}
    return type("LimitedProtocol", (LimitedProtocol,), limits)
