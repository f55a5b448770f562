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

from serving import discovery
from serving.errors import SettingsError
from serving.settings import ServerSettings

if TYPE_CHECKING:
    from serving.server import Server

EXIT_NOT_DRAINED = 1


def serve(settings: ServerSettings) -> None:
    """Serves a model until SIGTERM or SIGINT, then ends the process.

    The exit status is 1 if requests in flight could not be finished in time.

    Args:
      settings: The settings.

    Raises:
      SettingsError: The directory has no SavedModel, no URL can reach a name, or a port
        cannot be opened.
    """
    for label in settings.labels:
        discovery.check_name(label, "--label")
    source = discovery.find_model(settings.model, settings.name)
    with contextlib.ExitStack() as sockets:
        http = sockets.enter_context(listen(settings.host, settings.port, "--port"))
        if settings.grpc_port:
            # gRPC opens the port itself, but gives no clear reason if it fails.
            listen(settings.host, settings.grpc_port, "--grpc-port").close()
        # Imports TensorFlow, which takes seconds.
        from serving.server import Server

        # A change of version has full collections, which stall all requests. They need
        # not visit what TensorFlow imported.
        gc.freeze()
        is_drained = uvloop.run(_serve(Server(settings, source, http)))
    # Python would wait for threads that load a version, parse a request or predict.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if is_drained else EXIT_NOT_DRAINED)


async def _serve(server: Server) -> bool:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await server.run(stop)


def listen(host: str, port: int, option: str) -> socket.socket:
    """Opens a port.

    Args:
      host: An address of this machine.
      port: The port; 0 picks a free one.
      option: The command line option of the port, for the error.

    Raises:
      SettingsError: The port cannot be opened.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            f"choose a different address with --host and {option}"
        ) from error
