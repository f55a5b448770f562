"""Limits of HTTP connections: their number, headers and waiting times."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from serving.access import JSON
from serving.limits import RequestLimits
from serving.monitoring import Metrics
from serving.tls import Tls
from serving.tls_connections import TlsConnection

MAX_HEADER_BYTES = 64 << 10
_TOO_LARGE = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


class _LimitedConnection(h11.Connection):
    """Limits the URL and headers of a request.

    h11 checks `max_incomplete_event_size` only while a part of them is missing. Headers
    that arrive in one piece, or behind another request, could be larger.
    """

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Parses the next event.

        Raises:
          RemoteProtocolError: The request is invalid or too large.
        """
        if self.their_state is not h11.IDLE:
            return super().next_event()
        size = len(self.trailing_data[0])
        event = super().next_event()
        size -= len(self.trailing_data[0])
        if size > MAX_HEADER_BYTES:
            raise h11.RemoteProtocolError("too large", error_status_hint=_TOO_LARGE)
        return event


class LimitedProtocol(H11Protocol):
    """Limits connections, and the time of clients that do not send or read.

    uvicorn waits forever for the first request of a connection, and for clients that do
    not read. Its `limit_concurrency` keeps refused connections open until they send a
    request.

    Attributes:
      limits: Maximum connections, time to send the headers of a request (from the start
        of the connection or the first byte after a response), and time to read a
        response.
      metrics: Counts refused connections.
    """

    limits: RequestLimits
    metrics: Metrics

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.conn = _LimitedConnection(h11.SERVER, MAX_HEADER_BYTES)
        self._header_timer: asyncio.TimerHandle | None = None
        self._writing_timer: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]
        self, transport: asyncio.Transport
    ) -> None:
        """Refuses the connection or starts the timer of its first headers."""
        super().connection_made(transport)
        # Calls `pause_writing` while the client has not read everything, also if the
        # connection is being closed.
        transport.set_write_buffer_limits(0, 0)
        limit = self.limits.max_connections
        if len(self.connections) > limit and not self._close_idle():
            self.metrics.refused_connections.inc()
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"The server has {limit} connections (--max-connections). Try again "
                "later",
            )
        else:
            self._watch_headers()

    def data_received(self, data: bytes) -> None:
        """Reads a part of a request."""
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch_headers()

    def send_400_response(self, msg: str) -> None:
        """Refuses invalid HTTP; closes the connection if a request is running."""
        if self._is_waiting:
            error = sys.exc_info()[1]  # h11's, with status 431 for large headers
            status = HTTPStatus(getattr(error, "error_status_hint", 400))
            problem = str(error)
            if status is _TOO_LARGE:
                problem = f"The URL and headers have more than {MAX_HEADER_BYTES} bytes"
            self._refuse(status, f"{status.phrase}: {problem}")
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Starts the timer of the response: the client reads slowly."""
        super().pause_writing()
        if self._writing_timer is None:
            self._writing_timer = self.loop.call_later(
                self.limits.request_seconds, self.transport.abort
            )

    def resume_writing(self) -> None:
        """Stops the timer of the response: the client has read everything."""
        super().resume_writing()
        self._stop_writing_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the running request, and stops the timers."""
        super().connection_lost(exc)
        self._stop_timer()
        self._stop_writing_timer()

    @property
    def _is_waiting(self) -> bool:
        """Whether no request is running."""
        return self.cycle is None or self.cycle.response_complete

    def _close_idle(self) -> bool:
        """Closes the connection that has been idle longest; returns whether one was.

        The client of a closed idle connection sends its next request on a new one.
        """
        idle = {
            connection.timeout_keep_alive_task.when(): connection
            for connection in self.connections
            if isinstance(connection, LimitedProtocol)
            and connection.timeout_keep_alive_task is not None
            and connection._is_waiting  # not a pipelined request that is running
            and connection._writing_timer is None  # the response was read
            and not connection.transport.is_closing()
        }
        if idle:
            idle[min(idle)].transport.abort()
        return bool(idle)

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        body = json.dumps({"error": problem})
        self.transport.write(
            f"HTTP/1.1 {status} {status.phrase}\r\n"
            f"content-type: {JSON}\r\ncontent-length: {len(body)}\r\n"
            f"connection: close\r\n\r\n{body}".encode()
        )
        self.transport.close()

    def _watch_headers(self) -> None:
        if not self._is_waiting:
            self._stop_timer()
        elif self._header_timer is None and not self.transport.is_closing():
            self._header_timer = self.loop.call_later(
                self.limits.header_seconds, self._close_if_waiting
            )

    def _close_if_waiting(self) -> None:
        self._header_timer = None
        if self._is_waiting:
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_writing_timer(self) -> None:
        if self._writing_timer is not None:
            self._writing_timer.cancel()
            self._writing_timer = None


def limited_protocol(
    limits: RequestLimits, metrics: Metrics, tls: Tls | None = None
) -> Callable[..., asyncio.Protocol]:
    """Returns the function by which uvicorn makes the protocol of a connection.

    Args:
      limits: Limits of the connection.
      metrics: Counts refused connections.
      tls: The certificate; None to serve without encryption.
    """
    attributes = {"limits": limits, "metrics": metrics}
    protocol = type("LimitedProtocol", (LimitedProtocol,), attributes)
    if tls is None:
        return protocol
    return lambda **keywords: TlsConnection(protocol(**keywords), tls.context)
