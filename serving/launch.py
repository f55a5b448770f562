"""Starts the server, which runs until a signal stops it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

import uvloop

from contracts.errors import UsageError
from serving import discovery
from serving.settings import ServerSettings

if TYPE_CHECKING:
    from serving.model_process import ModelProcesses
    from serving.server import Server

logger = logging.getLogger(__name__)

EXIT_INCOMPLETE = 1


def serve(settings: ServerSettings) -> None:
    """Serves a model until SIGTERM or SIGINT, then ends the process.

    The exit status is 1 if requests in flight could not be finished in time, or if the
    process that starts those of versions has ended.

    Args:
      settings: The settings.

    Raises:
      UsageError: The directory has no SavedModel, no URL can reach a name, or a port
        cannot be opened.
    """
    for label in settings.labels:
        discovery.check_name(label, "labels")
    source = discovery.find_model(settings.model, settings.name)
    with contextlib.ExitStack() as sockets:
        http = sockets.enter_context(listen(settings.host, settings.port, "port"))
        if settings.grpc_port:
            # gRPC opens the port itself, but gives no clear reason if it fails.
            listen(settings.host, settings.grpc_port, "grpc_port").close()
        # Imports TensorFlow, which takes seconds.
        from serving.model_process import ModelProcesses
        from serving.server import Server

        # The processes share what TensorFlow imported, and full collections need not
        # visit it.
        gc.freeze()
        # One thread more than those of batches, so that none waits for a text check.
        processes = ModelProcesses(settings.batching.threads + 1)
        server = Server(settings, source, http, processes.load)
        is_complete = uvloop.run(_serve(server, processes))
    # Python would wait for threads that load a version, parse a request or predict.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if is_complete else EXIT_INCOMPLETE)


async def _serve(server: Server, processes: ModelProcesses) -> bool:
    """Returns whether a signal ended the server, and all requests were finished."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    is_broken = False

    def end() -> None:
        nonlocal is_broken
        is_broken = True
        loop.remove_reader(processes.fileno())
        logger.error(
            "no version can be loaded any more: the process that starts those "
            "of versions has ended"
        )
        stop.set()

    loop.add_reader(processes.fileno(), end)
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
