"""Starts the server of SavedModels, with gRPC and a process for each version."""

from __future__ import annotations

import functools
import gc

from serving import launch
from serving.launch import Backend
from serving.settings import ServerSettings


def serve(settings: ServerSettings, parent: int | None = None) -> None:
    """Serves SavedModels; see `serving.launch.serve`."""
    launch.serve(settings, functools.partial(_start, settings), parent=parent)


def _start(settings: ServerSettings) -> Backend:
    if settings.grpc_port:
        # gRPC opens the port itself, but gives no clear reason if it fails.
        launch.listen(settings.host, settings.grpc_port, "grpc_port").close()
    # Imports TensorFlow, which takes seconds.
    from serving.saved_models.grpc_server import GrpcServer
    from serving.saved_models.model_process import ModelProcesses

    # The processes share what TensorFlow imported, and full collections need not
    # visit it.
    gc.freeze()
    # One thread more than those of batches, so that none waits for a text check.
    processes = ModelProcesses(settings.batching.threads + 1)
    open_grpc = None
    if settings.grpc_port is not None:
        open_grpc = functools.partial(GrpcServer, port=settings.grpc_port)
    return Backend(processes.load, open_grpc, processes.fileno())
