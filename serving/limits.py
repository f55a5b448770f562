"""Limits of memory, connections and time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import resource
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from serving.errors import Code, RequestError, invalid

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A smaller request is parsed in under a millisecond, and a thread would cost more.
_INLINE_BYTES = 16 << 10
_PARSER_THREADS = 2
# A quarter of the memory is reserved for small requests, so that slow uploads of large
# requests cannot block them.
_SMALL_REQUEST_BYTES = 64 << 10
_LARGE_REQUESTS_SHARE = 0.75


@dataclasses.dataclass(frozen=True)
class RequestLimits:
    """Limits of the whole server, and of each request.

    Attributes:
      max_queued_bytes: Maximum bytes of requests in memory; more are refused.
      request_seconds: Time to receive a request, time to predict, and time for an HTTP
        client to read the response.
      max_connections: Maximum HTTP connections, gRPC connections and gRPC calls; more
        are refused.
      header_seconds: Time for an HTTP connection to send the headers of a request.
    """

    max_queued_bytes: int = 256 << 20
    request_seconds: float = 60.0
    max_connections: int = 512
    header_seconds: float = 10.0


def clip_to_descriptors(limits: RequestLimits) -> RequestLimits:
    """Returns limits that leave half of the file descriptors for models and gRPC."""
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


class RequestMemory:
    """Limits the bytes of all requests, and parses large requests in threads.

    A large request would block the event loop. Use it on one event loop only.

    Attributes:
      limits: The limits.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self.limits = limits
        self._used_bytes = 0
        self._parsers = ThreadPoolExecutor(_PARSER_THREADS, "parser")
        self._free_parsers = asyncio.Semaphore(_PARSER_THREADS)

    @contextlib.contextmanager
    def reserve(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that reserves bytes until the context ends.

        The function raises a RequestError if the request is too large, or if other
        requests have reserved too many bytes.
        """
        reserved = 0

        def add(size: int) -> None:
            nonlocal reserved
            limit = self.limits.max_queued_bytes
            if reserved + size > _SMALL_REQUEST_BYTES:
                limit = int(limit * _LARGE_REQUESTS_SHARE)
            if reserved + size > limit:
                raise invalid(
                    got="the request is too large",
                    allowed=f"at most {limit / 2**20:g} MiB (three quarters of the "
                    "server's --max-queued-mib)",
                    advice="send its rows in several requests",
                )
            if self._used_bytes + size > limit:
                raise RequestError(
                    Code.RESOURCE_EXHAUSTED,
                    got=f"the server holds {self._used_bytes} bytes of requests",
                    allowed=f"at most {limit} (the server's --max-queued-mib)",
                    advice="try again later",
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

        A thread cannot be stopped. If the request is cancelled, this waits for the
        function, so that the request's memory stays reserved until then.

        Args:
          size: Bytes of the request.
          function: Reads the request or writes its response.
          *arguments: The function's arguments.
        """
        if size <= _INLINE_BYTES:
            return function(*arguments)
        loop = asyncio.get_running_loop()
        # A call in the executor's queue would hold its request after the client left.
        async with self._free_parsers:
            call = loop.run_in_executor(self._parsers, function, *arguments)
            try:
                return await asyncio.shield(call)
            finally:
                await asyncio.wait([call])


async def limit_time(work: Awaitable[T], seconds: float) -> T:
    """Awaits a part of a request, or cancels it at its deadline.

    Args:
      work: Receives the request, or predicts, including the time in queues.
      seconds: The time that it may take.

    Raises:
      RequestError: The deadline has passed.
    """
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError as error:
        raise RequestError(
            Code.DEADLINE_EXCEEDED,
            got=f"the request took more than {seconds:g} s (the server's "
            "--request-seconds)",
        ) from error
