"""Beam's pool of Python workers at one address: Beam's own listens at all of them.

    python -m tools.worker_pool 127.0.1.2:50000

A Flink cluster on one machine needs a pool for each TaskManager, at the same port.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor

if __name__ == "__main__":
    # Beam starts the workers as `python`.
    folder = Path(sys.executable).parent
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(
        BeamFnExternalWorkerPoolServicer(use_process=True), server
    )
    server.add_insecure_port(sys.argv[1])
    server.start()
    server.wait_for_termination()
