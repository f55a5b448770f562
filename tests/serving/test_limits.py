"""What strangers cannot use up: memory, connections, time."""

import asyncio
import contextlib
import socket
import threading
import time
from http.client import HTTPConnection

import grpc
import pytest

from serving.batching import BatchingSettings
from serving.errors import RequestError
from serving.limits import RequestLimits, RequestMemory
from tests.serving import models
from tests.serving.conftest import running, wait_until

UNFINISHED = (
    b"POST /v1/models/counter:predict HTTP/1.1\r\nhost: localhost\r\n"
    b"content-length: 100\r\n\r\n{"
)
LIMITS = RequestLimits(
    max_queued_bytes=1000, request_seconds=1.0, max_connections=20, header_seconds=0.5
)


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    """The directory of the model that tells its version."""
    root = tmp_path_factory.mktemp("limited") / "counter"
    models.save_counter(root / "1", 1)
    return root


@pytest.fixture(scope="module")
def limited(counter):
    """Serves a model under low limits."""
    with running(counter, limits=LIMITS) as server:
        yield server


def connect(server):
    address = (server.http.base_url.host, server.http.base_url.port)
    return socket.create_connection(address, timeout=10)


def read_all(client):
    """Returns what the server sends until it closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(1000):
            received += chunk
    return received


def test_bytes_of_requests_are_limited_until_they_are_answered():
    memory = RequestMemory(RequestLimits(max_queued_bytes=100))
    with memory.reserve() as first, memory.reserve() as second:
        first(40)
        second(60)
        with pytest.raises(RequestError, match="holds 100 bytes") as refused:
            first(1)
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    with memory.reserve() as reserve:
        reserve(100)


def test_large_requests_are_parsed_in_a_thread():
    memory = RequestMemory(RequestLimits())

    async def thread_of(size):
        return await memory.process(size, threading.get_ident)

    assert asyncio.run(thread_of(100)) == threading.get_ident()
    assert asyncio.run(thread_of(1_000_000)) != threading.get_ident()


def test_request_above_the_limit_of_bytes_is_refused(limited):
    answer = limited.post("counter:predict", instances=[0] * 1000)
    assert answer.status_code == 503
    assert "1000 (--max-queued-mib) is the limit" in answer.json()["error"]
    assert limited.post("counter:predict", instances=[0]).status_code == 200


def test_idle_connections_are_limited_and_closed(limited):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(limited)) for _ in range(40)]
        answers = [read_all(client) for client in clients]
    refused = [answer for answer in answers if b"503 Service Unavailable" in answer]
    assert 20 <= len(refused) < 40
    assert answers.count(b"") + len(refused) == 40
    assert limited.http.get("/healthz").status_code == 200


def test_unfinished_headers_are_closed_however_slow_they_come(limited):
    with connect(limited) as client:
        start = time.monotonic()
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < start + 5:
                client.sendall(b"x: y\r\n")
                time.sleep(0.1)
        assert time.monotonic() < start + 5


def test_connection_may_be_idle_between_requests(limited):
    base = limited.http.base_url
    with contextlib.closing(HTTPConnection(base.host, base.port)) as client:
        client.connect()
        connection = client.sock
        for _ in range(2):
            client.request("GET", "/healthz")
            assert client.getresponse().read() == b'{"status": "alive"}'
            time.sleep(1.5 * LIMITS.header_seconds)
        assert client.sock is connection


def test_unfinished_body_is_refused_after_its_time(limited):
    with connect(limited) as client:
        client.sendall(UNFINISHED)
        answer = read_all(client)
    assert b"504 Gateway Timeout" in answer
    assert b"not received in 1 s (--request-seconds)" in answer


def test_client_that_leaves_while_it_sends_is_no_error(limited, caplog):
    with connect(limited) as client:
        client.sendall(UNFINISHED)
    cancelled = {"transport": "REST", "api": "predict", "signature": ""}
    wait_until(
        lambda: limited.metrics.registry.get_sample_value(
            "serving_requests_total", {**cancelled, "code": "CANCELLED"}
        )
    )
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_unfinished_body_does_not_hold_the_end_of_the_server(counter):
    with contextlib.ExitStack() as stack:
        with running(counter) as server:
            client = stack.enter_context(connect(server))
            client.sendall(UNFINISHED)
            time.sleep(0.2)
            assert server.metrics.in_flight == 0
            start = time.monotonic()
        assert time.monotonic() < start + 10
        assert server.drained == [True]
        assert b"503 Service Unavailable" in read_all(client)


def test_rows_of_a_client_that_left_are_not_run(counter):
    batching = BatchingSettings(max_batch_rows=1)
    with running(counter, batching=batching) as server:
        body = b'{"instances": [' + b"2000, " * 999 + b"2000]}"
        head = UNFINISHED.replace(b": 100\r\n\r\n{", b": %d\r\n\r\n" % len(body))
        with connect(server) as client:
            client.sendall(head + body)
            wait_until(lambda: server.metrics.in_flight == 1)
        wait_until(lambda: server.metrics.in_flight == 0)
        registry = server.metrics.registry
        assert registry.get_sample_value("serving_batch_rows_count") < 900
        assert registry.get_sample_value("serving_queued_rows") == 0
