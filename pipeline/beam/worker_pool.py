"""A pool of Beam's Python workers that replaces those that were killed.

    python -m pipeline.beam.worker_pool localhost:50000

Flink notices the loss of a worker that is connected, and waits forever for one that was
killed while it started (`ExternalEnvironmentFactory` of Beam 2.62). Beam's own pool,
`apache_beam.runners.worker.worker_pool_main`, never looks at its workers again. It also
listens on all addresses, so that a machine has room for one pool of a port.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import threading
import time

import click
import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor

_LOGGER = logging.getLogger(__name__)
_RESTART_SECONDS = 1.0
_CONNECT_SECONDS = 5.0


class WorkerPool(BeamFnExternalWorkerPoolServicer):
    """Starts a worker process for each request, and again if it was killed."""

    def __init__(self) -> None:
        super().__init__(use_process=True)

    def StartWorker(  # noqa: N802 (gRPC's name)
        self, start_worker_request: beam_fn_api_pb2.StartWorkerRequest, context: object
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        """Starts a worker."""
        response = super().StartWorker(start_worker_request, context)
        process = self._worker_processes.get(start_worker_request.worker_id)
        if process is not None:
            threading.Thread(
                target=self._watch, args=(start_worker_request, process), daemon=True
            ).start()
        return response

    def _watch(
        self,
        request: beam_fn_api_pb2.StartWorkerRequest,
        process: subprocess.Popen[bytes],
    ) -> None:
        for _ in process.stdout or ():
            pass  # Beam opens a pipe, which would block the worker once it is full
        if process.wait() == 0:
            return
        time.sleep(_RESTART_SECONDS)
        # StopWorker removes the process before it ends it.
        is_lost = self._worker_processes.get(request.worker_id) is process
        if is_lost and _listens(request.control_endpoint.url):
            _LOGGER.warning(
                "the worker %s ended with status %d: starting it again",
                request.worker_id,
                process.returncode,
            )
            self.StartWorker(request, None)


def _listens(endpoint: str) -> bool:
    """Returns whether the runner that requested a worker still runs."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


@click.command(help=__doc__)
@click.argument("address")
def main(address: str) -> None:
    """Runs the pool until the process is killed."""
    logging.basicConfig(level=logging.INFO)
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    server.add_insecure_port(address)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(
        WorkerPool(), server
    )
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
