"""What strangers cannot use up: memory, connections, time."""

import asyncio
import contextlib
import json
import socket
import struct
import threading
import time
from http.client import HTTPConnection

import grpc
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from serving.batching import BatchingSettings
from serving.errors import RequestError
from serving.limits import RequestLimits, RequestMemory, limit_time
from tests.serving import models
from tests.serving.conftest import running, wait_until

UNFINISHED = (
    b"POST /v1/models/counter:predict HTTP/1.1\r\nhost: localhost\r\n"
    b"content-length: 100\r\n\r\n{"
)
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
TRAILERS = (
    b"POST /v1/models/counter:predict HTTP/1.1\r\nhost: localhost\r\n"
    b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\na: "
)
# The headers of a gRPC call, as HPACK writes them in full.
CALL = b"".join(
    b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/grpc.health.v1.Health/Check"),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
)
LIMITS = RequestLimits(
    max_queued_bytes=30_000,
    request_seconds=1.0,
    max_connections=20,
    header_seconds=0.5,
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


def is_alive(client):
    """Reads a response to HEALTH."""
    received = b""
    while not received.endswith(b"}"):
        received += client.recv(1000)
    return received.startswith(b"HTTP/1.1 200 OK")


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


def test_small_requests_have_memory_that_large_ones_cannot_use():
    memory = RequestMemory(RequestLimits(max_queued_bytes=1 << 20))
    with memory.reserve() as large, memory.reserve() as small:
        large(700_000)
        with pytest.raises(RequestError, match="Try again later"):
            small(100_000)
        small(60_000)
        with pytest.raises(RequestError, match=r"more than 0\.75 MiB") as refused:
            large(100_000)
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT


def test_requests_that_wait_for_a_parser_are_dropped_and_keep_no_memory():
    memory, go_on, runs = RequestMemory(RequestLimits()), threading.Event(), []

    def parse():
        runs.append(go_on.wait())

    async def ask():
        calls = [
            asyncio.create_task(limit_time(memory.process(1_000_000, parse), 0.2))
            for _ in range(5)
        ]
        finished, running = await asyncio.wait(calls, timeout=1)
        go_on.set()
        await asyncio.wait(calls)
        return finished, running

    finished, running = asyncio.run(ask())
    assert len(finished) == 3
    # The memory of a request is in use as long as a thread parses it.
    assert len(running) == len(runs) == 2
    for call in finished | running:
        assert call.exception().code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_large_requests_are_parsed_in_a_thread():
    memory = RequestMemory(RequestLimits())

    async def thread_of(size):
        return await memory.process(size, threading.get_ident)

    assert asyncio.run(thread_of(100)) == threading.get_ident()
    assert asyncio.run(thread_of(1_000_000)) != threading.get_ident()


def test_request_above_the_limit_of_bytes_is_refused(limited):
    answer = limited.post("counter:predict", instances=[0] * 15_000)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "The request has more than 0.0286102 MiB (three quarters of "
        "--max-queued-mib). Send its rows in several requests"
    }
    assert limited.post("counter:predict", instances=[0]).status_code == 200


def test_idle_connections_are_limited_and_closed(limited):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(limited)) for _ in range(40)]
        answers = [read_all(client) for client in clients]
    refused = [answer for answer in answers if b"503 Service Unavailable" in answer]
    assert 20 <= len(refused) < 40
    assert b"The server has 20 connections (--max-connections)" in refused[0]
    assert answers.count(b"") + len(refused) == 40
    count = "serving_refused_connections_total"
    assert limited.metrics.registry.get_sample_value(count) == len(refused)
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


def test_idle_connections_make_room_for_new_ones(limited):
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(30):
            clients.append(stack.enter_context(connect(limited)))
            clients[-1].sendall(HEALTH)
            assert is_alive(clients[-1])
        for oldest in clients[:10]:
            assert read_all(oldest) == b""
        clients[-1].sendall(HEALTH)
        assert is_alive(clients[-1])


def send_forever(client, data):
    for _ in range(5000):
        client.sendall(data)


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\na: ", TRAILERS])
def test_headers_without_an_end_are_closed(half_plus_three, start):
    with connect(half_plus_three) as client:
        client.sendall(start)
        with pytest.raises(ConnectionError):
            send_forever(client, b"a" * (64 << 10))


def test_large_headers_are_refused(half_plus_three):
    with connect(half_plus_three) as client:
        client.sendall((HEALTH[:-2] + b"a: ").ljust((64 << 10) + 1, b"a"))
        assert b"431 Request Header Fields Too Large" in read_all(client)


def test_requests_on_one_connection_have_any_size_together(half_plus_three):
    with connect(half_plus_three) as client:
        for _ in range(5):
            client.sendall(HEALTH[:-2] + b"a: " + b"a" * 60_000 + b"\r\n\r\n")
            assert is_alive(client)


def test_few_requests_may_be_sent_before_the_response(half_plus_three):
    with connect(half_plus_three) as client:
        client.sendall(HEALTH * 9 + HEALTH[:-2] + b"connection: close\r\n\r\n")
        assert read_all(client).count(b"200 OK") == 10
    with connect(half_plus_three) as client, contextlib.suppress(ConnectionError):
        client.sendall(HEALTH * 1000)
        assert read_all(client).count(b"200 OK") < 1000


def test_client_that_does_not_read_is_closed(tmp_path):
    models.save_kinds(tmp_path / "kinds")
    limits = RequestLimits(max_connections=1, request_seconds=2)
    # More than the system holds of a response.
    row = {"text": "a" * 4_000_000, "numbers": [1, 2], "count": 1}
    body = json.dumps({"instances": [row]}).encode()
    head = UNFINISHED.replace(b"counter", b"kinds").replace(b"100", b"%d" % len(body))
    with (
        running(tmp_path / "kinds", limits=limits) as server,
        socket.socket() as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((server.http.base_url.host, server.http.base_url.port))
        client.sendall(head.removesuffix(b"{") + body)
        wait_until(lambda: server.metrics.in_flight == 1)
        wait_until(lambda: server.metrics.in_flight == 0)
        refused = server.http.get("/healthz")
        assert refused.status_code == 503
        assert "1 connections (--max-connections)" in refused.json()["error"]
        wait_until(lambda: server.http.get("/healthz").status_code == 200)


def predict(server, steps):
    request = predict_pb2.PredictRequest(model_spec={"name": "counter"})
    request.inputs["steps"].CopyFrom(tf.make_tensor_proto(steps, tf.int64))
    stub = prediction_service_pb2_grpc.PredictionServiceStub(server.channel)
    return stub.Predict(request, timeout=30)


def predict_longer_and_longer(server):
    for power in range(10, 30, 2):
        predict(server, [2**power])


def test_memory_and_time_of_grpc_requests_are_limited(limited):
    with pytest.raises(grpc.RpcError) as refused:
        predict(limited, [-1] * 4000)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "(three quarters of --max-queued-mib)" in refused.value.details()
    with pytest.raises(grpc.RpcError) as refused:
        predict_longer_and_longer(limited)
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "took more than 1 s (--request-seconds)" in refused.value.details()


def test_stalled_grpc_calls_are_limited_and_end_with_their_connection(limited):
    check = health_pb2_grpc.HealthStub(limited.channel).Check
    with socket.create_connection(("127.0.0.1", limited.grpc_port)) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
        settings = client.recv(1000)
        assert struct.pack("!HI", 3, 64) in settings  # SETTINGS_MAX_CONCURRENT_STREAMS
        for stream in range(1, 41, 2):
            client.sendall(frame(1, 4, stream, CALL))  # and no message
        wait_until(lambda: is_refused(check))
        client.settimeout(10)
        assert b"max connection age" in read_all(client)
    assert not is_refused(check)


def is_refused(check):
    try:
        check(health_pb2.HealthCheckRequest(), timeout=5)
    except grpc.RpcError as error:
        return error.details() == "Concurrent RPC limit exceeded!"
    return False


def frame(kind, flags, stream, content=b""):
    """Returns a frame of HTTP/2."""
    head = struct.pack("!I", len(content))[1:] + bytes([kind, flags])
    return head + struct.pack("!I", stream) + content


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
