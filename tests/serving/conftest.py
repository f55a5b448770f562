"""Servers on loopback ports that the tests of a file share."""

import asyncio
import contextlib
import dataclasses
import threading
import time
from pathlib import Path

import grpc
import httpx
import pytest

from serving import discovery, server
from serving.batching import BatchingSettings
from serving.metrics import Metrics
from tests.serving import models

PATIENCE_SECONDS = 60


@dataclasses.dataclass
class Running:
    """A server in a thread of this process, and clients of it."""

    http: httpx.Client
    channel: grpc.Channel
    grpc_port: int
    metrics: Metrics
    # What `Server.run` returned, after the context: whether the server drained.
    drained: list[bool]

    def post(self, path, **content):
        return self.http.post(f"/v1/models/{path}", json=content)


def wait_until(is_so):
    """Waits for what must come."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@contextlib.contextmanager
def running(directory, **settings):
    """Serves a directory until the context ends."""
    settings = server.ServerSettings(
        Path(directory), port=0, grpc_port=0, poll_seconds=0.05, **settings
    )
    source = discovery.find_model(settings.model, settings.name)
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(server.listen("127.0.0.1", 0, "--port"))
        made = server.Server(settings, source, listening)
        loop, stop = asyncio.new_event_loop(), asyncio.Event()
        drained = []
        thread = threading.Thread(
            target=lambda: drained.append(loop.run_until_complete(made.run(stop)))
        )
        port = listening.getsockname()[1]
        thread.start()
        stack.callback(thread.join)
        stack.callback(loop.call_soon_threadsafe, stop.set)
        http = stack.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS)
        )
        wait_until(lambda: http.get("/readyz").status_code == 200)
        channel = grpc.insecure_channel(f"127.0.0.1:{made.grpc_port}")
        stack.enter_context(channel)
        yield Running(http, channel, made.grpc_port, made.metrics, drained)


@pytest.fixture(scope="package")
def half_plus_three(tmp_path_factory):
    """Serves the model of TensorFlow Serving's documentation as version 123."""
    root = tmp_path_factory.mktemp("served") / "half_plus_three"
    models.save_half_plus_three(root / "00000123")
    with running(root) as server:
        yield server


@pytest.fixture(scope="package")
def kinds(tmp_path_factory):
    """Serves a single SavedModel of several types."""
    root = models.save_kinds(tmp_path_factory.mktemp("served") / "kinds")
    with running(root) as server:
        yield server


@pytest.fixture(scope="package")
def exported(export):
    """A tiny model of pairs, as the pipeline exports it."""
    return export("pairs")


@pytest.fixture(scope="package")
def pairs(exported):
    """Serves the model of pairs; a batch waits long enough for 16 clients."""
    batching = BatchingSettings(timeout_seconds=0.2)
    with running(exported.directory.parent, name="pairs", batching=batching) as server:
        yield server
