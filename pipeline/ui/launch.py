"""Serves the web view until a signal stops it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from pipeline.ui.app import application
from serving.launch import listen


def serve(
    outputs: Sequence[Path], host: str, port: int, allowed_hosts: Sequence[str]
) -> None:
    """Serves the runs of output directories until SIGTERM or SIGINT.

    Args:
      outputs: The output directories.
      host: The address to listen on.
      port: The port; 0 picks a free one.
      allowed_hosts: Further host names of the server.

    Raises:
      UsageError: The port cannot be opened.
    """
    with listen(host, port) as socket:
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{socket.getsockname()[1]}/", flush=True)
        app = application(outputs, host, allowed_hosts)
        settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3)
        # Uvicorn shuts down on a signal, and then raises the signal again.
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[socket])
