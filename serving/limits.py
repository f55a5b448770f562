"""What requests may use: bytes of memory, connections and time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import grpc

from serving.errors import RequestError

T = TypeVar("T")

MAX_REQUEST_BYTES = 64 << 20
# Below it, a request is parsed in under a millisecond, and a thread would cost more.
_INLINE_BYTES = 16 << 10
_PARSER_THREADS = 2


@dataclasses.dataclass(frozen=True)
class RequestLimits:
    """Limits of the server as a whole, and of each request.

    Attributes:
      max_queued_bytes: Bytes of requests in memory at once; more are refused.
      request_seconds: Time to receive a request, and time to answer it.
      max_connections: HTTP connections open at once; more are closed.
      header_seconds: Time that an HTTP connection has to send the headers of a request.
    """

    max_queued_bytes: int = 256 << 20
    request_seconds: float = 60.0
    max_connections: int = 512
    header_seconds: float = 10.0


class RequestMemory:
    """Counts the bytes of all requests, and parses large requests in threads.

    A large request would keep the event loop from all others. Lives on one event loop.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._max_bytes = limits.max_queued_bytes
        self._used_bytes = 0
        self._parsers = ThreadPoolExecutor(_PARSER_THREADS, "parser")

    @contextlib.contextmanager
    def reserve(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that reserves bytes until the context ends.

        The function raises a RequestError if too many bytes are reserved already.
        """
        reserved = 0

        def add(size: int) -> None:
            nonlocal reserved
            if self._used_bytes + size > self._max_bytes:
                raise RequestError(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"The server holds {self._used_bytes} bytes of requests, and "
                    f"{self._max_bytes} (--max-queued-mib) is the limit. Try again "
                    "later",
                )
            self._used_bytes += size
            reserved += size

        try:
            yield add
        finally:
            self._used_bytes -= reserved

    async def process(
        self, size: int, function: Callable[..., T], *arguments: object
    ) -> T:
        """Calls a function, in a thread if its request is large.

        Args:
          size: Bytes of the request.
          function: Reads the request or writes its response.
          *arguments: Of the function.
        """
        if size <= _INLINE_BYTES:
            return function(*arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._parsers, function, *arguments)
