"""What requests may use: bytes of memory, connections and time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import grpc

from serving.errors import RequestError, invalid

T = TypeVar("T")

MAX_REQUEST_BYTES = 64 << 20
# Below it, a request is parsed in under a millisecond, and a thread would cost more.
_INLINE_BYTES = 16 << 10
_PARSER_THREADS = 2
# Small requests have a quarter of the memory to themselves, so that slow uploads of
# large ones cannot keep them out.
_SMALL_REQUEST_BYTES = 64 << 10
_LARGE_REQUESTS_SHARE = 0.75


@dataclasses.dataclass(frozen=True)
class RequestLimits:
    """Limits of the server as a whole, and of each request.

    Attributes:
      max_queued_bytes: Bytes of requests in memory at once; more are refused.
      request_seconds: Time to receive a request, time to predict, and time that an HTTP
        client has to read the response.
      max_connections: HTTP connections, gRPC connections and gRPC calls at once; more
        are refused.
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
        self._free_parsers = asyncio.Semaphore(_PARSER_THREADS)

    @contextlib.contextmanager
    def reserve(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that reserves bytes until the context ends.

        The function raises a RequestError if the request is too large, or if too many
        bytes are reserved already.
        """
        reserved = 0

        def add(size: int) -> None:
            nonlocal reserved
            limit = self._limit(reserved + size)
            if reserved + size > limit:
                raise invalid(
                    f"The request has more than {limit / 2**20:g} MiB (three quarters "
                    "of --max-queued-mib). Send its rows in several requests"
                )
            if self._used_bytes + size > limit:
                raise RequestError(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"The server holds {self._used_bytes} bytes of requests, and "
                    f"{limit} (--max-queued-mib) is the limit. Try again later",
                )
            self._used_bytes += size
            reserved += size

        try:
            yield add
        finally:
            self._used_bytes -= reserved

    def _limit(self, size: int) -> int:
        if size <= _SMALL_REQUEST_BYTES:
            return self._max_bytes
        return int(self._max_bytes * _LARGE_REQUESTS_SHARE)

    async def process(
        self, size: int, function: Callable[..., T], *arguments: object
    ) -> T:
        """Calls a function, in a thread if its request is large.

        A thread cannot be stopped: if the request is cancelled, this waits for the
        function, so that the memory of the request stays reserved for as long.

        Args:
          size: Bytes of the request.
          function: Reads the request or writes its response.
          *arguments: Of the function.
        """
        if size <= _INLINE_BYTES:
            return function(*arguments)
        loop = asyncio.get_running_loop()
        # The executor's queue would hold the requests of clients that left.
        async with self._free_parsers:
            call = loop.run_in_executor(self._parsers, function, *arguments)
            try:
                return await asyncio.shield(call)
            finally:
                await asyncio.wait([call])


async def limit_time(predicting: Awaitable[T], seconds: float) -> T:
    """Returns the result of a prediction; cancels it after a time.

    Args:
      predicting: The prediction, with the time that it waits for a thread.
      seconds: The time.

    Raises:
      RequestError: The time is up.
    """
    try:
        return await asyncio.wait_for(predicting, seconds)
    except asyncio.TimeoutError as error:
        raise RequestError(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f"The request took more than {seconds:g} s (--request-seconds)",
        ) from error
