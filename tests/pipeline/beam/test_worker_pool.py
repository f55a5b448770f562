"""A pool replaces a worker that was killed."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time

import apache_beam as beam
import grpc
import psutil
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from click.testing import CliRunner

from pipeline.beam import worker_pool
from tests import silent_proxy
from tests.nightly import nightly
from tools.local_cluster import free_ports

_SECONDS = 60
WORKER = "1-1"


def start(address, variables=None):
    command = [sys.executable, "-m", "pipeline.beam.worker_pool", address]
    return subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def pool(foreground):
    """The process of a pool, and its address."""
    (port,) = free_ports("localhost", 1)
    address = f"localhost:{port}"
    process = start(address)
    with (
        grpc.insecure_channel(address) as channel,
        pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"),
    ):
        channel.unary_unary("/none")(b"", timeout=_SECONDS, wait_for_ready=True)
    yield process, address
    process.terminate()
    process.communicate()


def kill_first_worker(pool):
    killed = []

    def wait():
        end = time.monotonic() + _SECONDS
        while not killed and time.monotonic() < end:
            for worker in psutil.Process(pool.pid).children():
                worker.kill()
                killed.append(worker.pid)
            time.sleep(0.01)

    threading.Thread(target=wait, daemon=True).start()
    return killed


@pytest.mark.slow
@pytest.mark.nightly
def test_worker_that_is_killed_while_it_starts_is_replaced(tmp_path, pool):
    process, address = pool
    killed = kill_first_worker(process)
    options = PipelineOptions(
        [
            "--runner=PortableRunner",
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


class Runner(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """The side of Flink that waits for a worker to connect."""

    def __init__(self):
        self.connected = []
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self, self._server)
        self.address = f"localhost:{self._server.add_insecure_port('localhost:0')}"
        self._server.start()

    def Control(self, request_iterator, context):  # noqa: N802 (gRPC's name)
        self.connected.append(dict(context.invocation_metadata())["worker_id"])
        yield from ()

    def stop(self):
        self._server.stop(None).wait()


@pytest.fixture
def runner():
    started = Runner()
    yield started
    started.stop()


@pytest.fixture
def ending(monkeypatch, tmp_path):
    """A pool in this process, whose workers run a shell script instead of Beam."""
    monkeypatch.setattr(worker_pool, "_RESTART_SECONDS", 0.01)
    pool = worker_pool.WorkerPool()
    starts = tmp_path / "starts"
    starts.touch()

    def start_workers(script, address):
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\necho started >> {starts}\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        request = beam_fn_api_pb2.StartWorkerRequest(worker_id=WORKER)
        request.control_endpoint.url = address
        pool.StartWorker(request, None)
        return pool

    start_workers.count = lambda: len(starts.read_text().splitlines())
    yield start_workers
    pool.close()


def wait_until(condition):
    end = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_worker_that_cannot_start_ends_the_wait_of_the_runner(ending, runner, caplog):
    ending("exit 1", runner.address)
    wait_until(lambda: runner.connected)
    assert runner.connected == [WORKER]
    assert ending.count() == worker_pool._STARTS
    assert "ended with status 1, 5 times: the job will fail" in caplog.text


def test_starts_of_an_earlier_job_do_not_count(ending, runner):
    ending("exit 1", runner.address)
    wait_until(lambda: runner.connected == [WORKER])
    ending("exit 1", runner.address)  # Flink uses the ID again
    wait_until(lambda: runner.connected == [WORKER, WORKER])
    assert ending.count() == 2 * worker_pool._STARTS


@pytest.mark.parametrize("script", ["exit 0", "yes | head -n 100000; exit 0"])
def test_worker_that_has_finished_is_not_started_again(ending, runner, script):
    pool = ending(script, runner.address)
    process = pool._worker_processes[WORKER]
    wait_until(lambda: process.poll() is not None)  # its output does not block it
    time.sleep(0.2)
    assert ending.count() == 1


def test_worker_that_the_runner_stops_is_not_started_again(ending, runner):
    pool = ending("exec sleep 60", runner.address)
    wait_until(ending.count)
    request = beam_fn_api_pb2.StopWorkerRequest(worker_id=WORKER)
    pool.StopWorker(request, None)
    time.sleep(0.2)
    assert ending.count() == 1


def test_worker_of_a_runner_that_has_ended_is_not_started_again(ending, runner):
    runner.stop()
    pool = ending("exit 1", runner.address)
    wait_until(lambda: pool._worker_processes[WORKER].poll() is not None)
    time.sleep(0.2)
    assert ending.count() == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, nightly(signal.SIGINT)])
def test_signal_ends_the_pool_and_its_workers(pool, number):
    process, address = pool
    with grpc.insecure_channel(address) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        request = beam_fn_api_pb2.StartWorkerRequest(worker_id=WORKER)
        request.control_endpoint.url = address
        stub.StartWorker(request)
    (worker,) = psutil.Process(process.pid).children()
    process.send_signal(number)
    assert process.wait(_SECONDS) == 0
    assert not psutil.pid_exists(worker.pid)


def test_pool_on_an_address_in_use_is_refused(runner, monkeypatch):
    monkeypatch.setenv("PATH", os.environ["PATH"])  # a pool changes it
    # Any server of gRPC would share its port with a pool, if the pool let it.
    pool = CliRunner().invoke(worker_pool.main, [runner.address])
    assert pool.exit_code == 2
    assert f"address: the pool cannot listen on {runner.address}" in pool.output
    assert "[E-settings-refused]" in pool.output


@pytest.mark.nightly
@pytest.mark.slow
def test_workers_of_a_pool_do_not_use_a_proxy(runner):
    (port,) = free_ports("localhost", 1)
    address = f"localhost:{port}"
    with silent_proxy.listening() as (_, variables):
        process = start(address, variables)
        try:
            with grpc.insecure_channel(address) as channel:
                stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
                request = beam_fn_api_pb2.StartWorkerRequest(worker_id=WORKER)
                request.control_endpoint.url = runner.address
                stub.StartWorker(request, wait_for_ready=True, timeout=_SECONDS)
            wait_until(lambda: runner.connected)
            assert runner.connected[0] == WORKER
        finally:
            process.terminate()
            process.communicate()
