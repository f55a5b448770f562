"""TLS of HTTP connections, between asyncio's transport and the protocol of HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

_CHUNK_BYTES = 64 << 10


class TlsConnection(asyncio.Protocol, asyncio.Transport):
    """Decrypts for the protocol of HTTP, and is the transport that it writes to.

    The TLS of asyncio and uvloop reports a connection only after its handshake, takes a
    whole response at once however slowly the client reads, and waits for the client
    before it closes. So handshakes and unread responses would have no limits, and idle
    clients would delay the shutdown. Here HTTP has the connection from its start, and
    the limits of the plain transport.

    Args:
      http: The protocol of HTTP.
      context: The context of the connection.
    """

    def __init__(self, http: asyncio.Protocol, context: ssl.SSLContext) -> None:
        super().__init__()
        self._http = http
        self._context = context
        self._received, self._encrypted = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._encrypted, server_side=True)
        self._is_established = False
        self._is_reading = True
        self._plain: asyncio.Transport

    # The protocol of the plain transport.

    def connection_made(  # type: ignore[override]
        self, transport: asyncio.Transport
    ) -> None:
        """Starts HTTP, whose timer of the first headers includes the handshake."""
        self._plain = transport
        self._http.connection_made(self)

    def data_received(self, data: bytes) -> None:
        """Decrypts a part of a request, or continues the handshake."""
        self._received.write(data)
        self._read()

    def eof_received(self) -> bool | None:
        """Reports the end of the input."""
        return self._http.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends HTTP."""
        self._http.connection_lost(exc)

    def pause_writing(self) -> None:
        """Reports a client that reads slowly."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Reports that the client has read."""
        self._http.resume_writing()

    # The transport of HTTP.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns a property of the connection."""
        if name == "sslcontext":
            return self._context
        return self._plain.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Returns whether the connection is closed, or will be."""
        return self._plain.is_closing()

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """Sets the limits in encrypted bytes."""
        self._plain.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Stops to decrypt and to receive."""
        self._is_reading = False
        self._plain.pause_reading()

    def resume_reading(self) -> None:
        """Continues, also with what was received before the pause."""
        self._is_reading = True
        self._plain.resume_reading()
        asyncio.get_running_loop().call_soon(self._read)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends data; before the end of the handshake, nothing can be sent."""
        if data and self._is_established and not self.is_closing():
            self._tls.write(data)
            self._send()

    def close(self) -> None:
        """Closes the connection after all data was sent, and waits for no reply."""
        if self.is_closing():
            return
        if self._is_established:
            with contextlib.suppress(ssl.SSLError):  # there is no reply yet
                self._tls.unwrap()
            self._send()
        self._plain.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._plain.abort()

    def _read(self) -> None:
        while self._is_reading and not self.is_closing():
            try:
                if not self._is_established:
                    self._tls.do_handshake()
                    self._is_established = True
                data = self._tls.read(_CHUNK_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:  # OpenSSL has written an alert that gives the reason
                self._send()
                self._plain.close()
                return
            if not data:  # the client has closed TLS
                self.close()
                return
            self._http.data_received(data)
        self._send()

    def _send(self) -> None:
        if data := self._encrypted.read():
            self._plain.write(data)
