"""Beam's pool of Python workers on one address.

    python -m tools.worker_pool 127.0.1.1:50000

Beam's own program, `apache_beam.runners.worker.worker_pool_main`, listens on all
addresses, so that one machine has room for one pool of a port.
"""

import sys

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor


def main(address: str) -> None:
    """Runs the pool until the process is killed."""
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    server.add_insecure_port(address)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(
        BeamFnExternalWorkerPoolServicer(use_process=True), server
    )
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main(sys.argv[1])
