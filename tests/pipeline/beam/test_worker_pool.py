"""A pool replaces a worker that was killed."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import apache_beam as beam
import grpc
import psutil
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tools.local_cluster import free_ports

_SECONDS = 60


@pytest.fixture
def pool(monkeypatch):
    """The process of a pool, and its address."""
    # It starts its workers as `python`.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    (port,) = free_ports("localhost", 1)
    address = f"localhost:{port}"
    command = [sys.executable, "-m", "pipeline.beam.worker_pool", address]
    process = subprocess.Popen(command)
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(_SECONDS)
    yield psutil.Process(process.pid), address
    for worker in psutil.Process(process.pid).children():
        worker.kill()
    process.kill()
    process.wait()


def kill_first_worker(pool):
    killed = []

    def wait():
        end = time.monotonic() + _SECONDS
        while not killed and time.monotonic() < end:
            for worker in pool.children():
                worker.kill()
                killed.append(worker.pid)
            time.sleep(0.01)

    threading.Thread(target=wait, daemon=True).start()
    return killed


@pytest.mark.slow
def test_worker_that_is_killed_while_it_starts_is_replaced(tmp_path, pool):
    process, address = pool
    killed = kill_first_worker(process)
    options = PipelineOptions(
        [
            "--runner=pipeline.beam.job_runners.PortableRunner",
            "--job_endpoint=embed",
            "--environment_type=EXTERNAL",
            f"--environment_config={address}",
        ]
    )
    with beam.Pipeline(options=options) as pipeline:
        lines = pipeline | beam.Create(["line"])
        lines | beam.io.WriteToText(str(tmp_path / "lines"))
    assert len(killed) == 1
    assert [file.read_text() for file in tmp_path.iterdir()] == ["line\n"]
