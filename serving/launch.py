"""Starts the server, which runs until a signal stops it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from contracts import signals
from contracts.errors import UsageError
from contracts.versions.exported_model import GRAPH_FILE
from serving import discovery
from serving.settings import ServerSettings

if TYPE_CHECKING:
    from serving.model_facts import ServedModel
    from serving.server import Front, Server, Shared

logger = logging.getLogger(__name__)

EXIT_INCOMPLETE = 1


@dataclasses.dataclass(frozen=True)
class Backend:
    """What loads the models of a server, and serves them besides HTTP.

    Attributes:
      load: Loads the directory of a version and warms it up.
      open_grpc: Returns gRPC with an open port; None to serve HTTP only.
      broken: A descriptor that is readable once no version can be loaded any more; None
        if there is none.
    """

    load: Callable[[Path, int], ServedModel]
    open_grpc: Callable[[Shared], Front] | None = None
    broken: int | None = None


def serve(
    settings: ServerSettings,
    start_backend: Callable[[], Backend],
    main_file: str = GRAPH_FILE,
    parent: int | None = None,
) -> None:
    """Serves a model until SIGTERM, SIGINT or SIGHUP, then ends the process.

    The exit status is 1 if requests in flight could not be finished in time, or if no
    version could be loaded any more.

    Args:
      settings: The settings.
      start_backend: Called once the HTTP port is open; imports what it needs, and may
        fork before a thread is started.
      main_file: See `served_versions.is_model`.
      parent: A descriptor that is readable once the process that started this one has
        ended, which stops the server, too; None if nothing else stops it.

    Raises:
      UsageError: The directory has no model, no URL can reach a name, or a port cannot
        be opened.
    """
    for label in settings.labels:
        discovery.check_name(label, "labels")
    source = discovery.find_model(settings.model, settings.name, main_file)
    with contextlib.ExitStack() as sockets:
        http = sockets.enter_context(listen(settings.host, settings.port, "port"))
        backend = start_backend()
        from serving.server import Server

        server = Server(settings, source, http, backend.load, backend.open_grpc)
        is_complete = uvloop.run(_serve(server, backend.broken, parent))
    # Python would wait for threads that load a version, parse a request or predict.
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # the terminal was closed
            stream.flush()
    os._exit(0 if is_complete else EXIT_INCOMPLETE)


async def _serve(server: Server, broken: int | None, parent: int | None) -> bool:
    """Returns whether a signal ended the server, and all requests were finished."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals.not_ignored(signals.STOPPING):
        loop.add_signal_handler(number, stop.set)
    is_broken = False

    def end(descriptor: int) -> None:
        nonlocal is_broken
        is_broken = True
        loop.remove_reader(descriptor)
        logger.error(
            "no version can be loaded any more: the process that starts those "
            "of versions has ended"
        )
        stop.set()

    if broken is not None:
        loop.add_reader(broken, end, broken)

    def end_with_parent(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        logger.info("the process that started this server has ended")
        stop.set()

    if parent is not None:
        loop.add_reader(parent, end_with_parent, parent)
    return await server.run(stop) and not is_broken


def listen(host: str, port: int, setting: str = "port") -> socket.socket:
    """Opens a port.

    Args:
      host: An address of this machine.
      port: The port; 0 picks a free one.
      setting: The argument of the port, for the error.

    Raises:
      UsageError: The port cannot be opened.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # Python adds the address as a tuple, except to an error of the name's lookup.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror or error
        raise UsageError(
            setting,
            f"cannot listen on {host} port {port}: {reason}",
            advice=f"choose a different address with `host` and `{setting}`",
            name="E-port-unavailable",
        ) from error
