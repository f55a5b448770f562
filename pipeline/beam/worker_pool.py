"""A pool of Beam's Python workers that replaces those that were killed.

    python -m pipeline.beam.worker_pool localhost:50000

Flink notices the loss of a connected worker, but waits forever for a worker that was
killed while it started (`ExternalEnvironmentFactory` of Beam 2.62). Beam's own pool,
`apache_beam.runners.worker.worker_pool_main`, does not watch its workers. It also
listens on all addresses of the machine.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import click
import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import (
    BeamFnExternalWorkerPoolServicer,
    kill_process_gracefully,
)
from apache_beam.utils import thread_pool_executor

from contracts import signals
from contracts.errors import SettingError
from modules import environment

_LOGGER = logging.getLogger(__name__)
_RESTART_SECONDS = 1.0
_CONNECT_SECONDS = 5.0
_STARTS = 5


class WorkerPool(BeamFnExternalWorkerPoolServicer):
    """Starts a worker process for each request, and again if it was killed."""

    def __init__(self) -> None:
        super().__init__(use_process=True)
        self._is_closed = threading.Event()

    def StartWorker(  # noqa: N802 (gRPC's name)
        self, start_worker_request: beam_fn_api_pb2.StartWorkerRequest, context: object
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        """Starts a worker."""
        return self._start(start_worker_request, starts=1)

    def close(self) -> None:
        """Ends all workers."""
        self._is_closed.set()
        for process in list(self._worker_processes.values()):
            kill_process_gracefully(process)

    # Starts are counted per request: Flink reuses the IDs of workers in later jobs.
    def _start(
        self, request: beam_fn_api_pb2.StartWorkerRequest, starts: int
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        response = super().StartWorker(request, None)
        process = self._worker_processes.get(request.worker_id)
        if process is not None:
            threading.Thread(
                target=self._watch, args=(request, process, starts), daemon=True
            ).start()
        return response

    def _watch(
        self,
        request: beam_fn_api_pb2.StartWorkerRequest,
        process: subprocess.Popen[bytes],
        starts: int,
    ) -> None:
        for _ in process.stdout or ():
            pass  # Beam opens a pipe, which would block the worker once it is full
        if process.wait() == 0 or self._is_closed.wait(_RESTART_SECONDS):
            return
        worker = request.worker_id
        # StopWorker removes the process before it ends it.
        is_lost = self._worker_processes.get(worker) is process
        if not is_lost or not _listens(request.control_endpoint.url):
            return
        ended = f"the worker {worker} ended with status {process.returncode}"
        if starts < _STARTS:
            _LOGGER.warning("%s: starting it again", ended)
            self._start(request, starts + 1)
        else:
            _LOGGER.error("%s, %d times: the job will fail", ended, _STARTS)
            _connect_for(request)


def _listens(endpoint: str) -> bool:
    """Returns whether the runner that requested a worker is still running."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _connect_for(request: beam_fn_api_pb2.StartWorkerRequest) -> None:
    """Connects like a worker and ends, so that the runner stops waiting."""
    with grpc.insecure_channel(request.control_endpoint.url) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
        metadata = [("worker_id", request.worker_id)]
        # If the runner does not end the call, the timeout does.
        with contextlib.suppress(grpc.RpcError):
            for _ in stub.Control(iter(()), _CONNECT_SECONDS, metadata):
                pass


@click.command(help=__doc__)
@click.argument("address")
def main(address: str) -> None:
    """Runs the pool until Ctrl-C or SIGTERM, then ends its workers."""
    environment.set_up()
    logging.basicConfig(level=logging.INFO)
    # Beam starts its workers as `python`, which must be this one.
    folder = Path(sys.executable).parent
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"
    # By default, two pools could listen on one address, and would share its requests.
    options = [("grpc.so_reuseport", 0)]
    threads = thread_pool_executor.shared_unbounded_instance()
    server = grpc.server(threads, options=options)
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        refused = SettingError(
            "address",
            f"the pool cannot listen on {address}",
            "HOST:PORT with a free port of this machine, such as localhost:50000",
        )
        raise click.BadArgumentUsage(str(refused)) from error
    pool = WorkerPool()
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    for number in signals.not_ignored((signal.SIGINT, signal.SIGTERM)):
        signal.signal(number, lambda *_: server.stop(grace=None))
    server.start()
    server.wait_for_termination()
    pool.close()


if __name__ == "__main__":
    main()
