"""Limits of HTTP connections: their number, headers, waiting times, and disconnects."""

import contextlib
import dataclasses
import json
import socket
import time
from http.client import HTTPConnection

import httpx
import pytest

from serving import tls
from serving.batching import BatchingSettings
from serving.limits import RequestLimits
from tests.serving import small_models
from tests.serving.conftest import (
    LIMITS,
    check_refused,
    read_all,
    running,
    wait_until,
)

UNFINISHED = (
    b"POST /v1/models/counter:predict HTTP/1.1\r\nhost: localhost\r\n"
    b"content-length: 100\r\n\r\n{"
)
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
TRAILERS = (
    b"POST /v1/models/counter:predict HTTP/1.1\r\nhost: localhost\r\n"
    b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\na: "
)


def connect(server):
    address = (server.http.base_url.host, server.http.base_url.port)
    return socket.create_connection(address, timeout=10)


def is_alive(client):
    """Reads a response to HEALTH."""
    received = b""
    while not received.endswith(b"}"):
        received += client.recv(1000)
    return received.startswith(b"HTTP/1.1 200 OK")


def is_served(server):
    try:
        return server.http.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_connections_beyond_the_limit_are_refused(counter):
    limits = dataclasses.replace(LIMITS, header_seconds=60)
    with (
        running(counter, limits=limits) as server,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(limits.max_connections):
            stack.enter_context(connect(server))
        for _ in range(5):
            response = read_all(stack.enter_context(connect(server)))
            assert response.startswith(b"HTTP/1.1 503 Service Unavailable")
            assert b"The server has 20 connections (--max-connections)" in response
        assert server.sample("serving_refused_connections_total") == 5


def test_idle_connections_are_closed(limited):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(limited)) for _ in range(10)]
        assert {read_all(client) for client in clients} == {b""}
    assert limited.http.get("/healthz").status_code == 200


def test_slow_headers_end_the_connection(limited):
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
        for pause in (1.5 * LIMITS.header_seconds, 0):
            client.request("GET", "/healthz")
            assert client.getresponse().read() == b'{"status": "alive"}'
            time.sleep(pause)
        assert client.sock is connection


def test_new_connection_closes_the_one_idle_longest(limited):
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(30):
            clients.append(stack.enter_context(connect(limited)))
            clients[-1].sendall(HEALTH)
            assert is_alive(clients[-1])
            time.sleep(0.005)  # uvloop's timers have milliseconds
        for oldest in clients[:10]:
            assert read_all(oldest) == b""
        clients[-1].sendall(HEALTH)
        assert is_alive(clients[-1])


def send_forever(client, data):
    for _ in range(5000):
        client.sendall(data)


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\na: ", TRAILERS])
def test_endless_headers_end_the_connection(half_plus_three, start):
    with connect(half_plus_three) as client:
        client.sendall(start)
        with pytest.raises(ConnectionError):
            send_forever(client, b"a" * (64 << 10))


def test_large_headers_are_refused(half_plus_three):
    with connect(half_plus_three) as client:
        client.sendall((HEALTH[:-2] + b"a: ").ljust((64 << 10) + 1, b"a"))
        assert b"431 Request Header Fields Too Large" in read_all(client)


@pytest.mark.parametrize("long", [b"GET /healthz?", HEALTH[:-2] + b"a: "])
@pytest.mark.parametrize("earlier", [b"", HEALTH])
def test_url_and_headers_have_64_kib_at_most(half_plus_three, long, earlier):
    # In one piece, so that the headers are complete when the server reads them.
    end = b"\r\n\r\n" if b"\r\n" in long else HEALTH.removeprefix(b"GET /healthz")
    for size, status in ((64 << 10, b" 200 OK"), ((64 << 10) + 1, b" 431 ")):
        with connect(half_plus_three) as client:
            client.sendall(earlier + long.ljust(size - len(end), b"a") + end)
            received = b""
            while received.count(b"}") < 1 + bool(earlier):  # the end of a response
                chunk = client.recv(1000)
                assert chunk
                received += chunk
            responses = received.split(b"HTTP/1.1")[1:]
            assert len(responses) == 1 + bool(earlier)
            assert responses[-1].startswith(status)
        if size > 64 << 10:
            assert b"The URL and headers have more than 65536 bytes" in responses[-1]


def test_header_limit_counts_each_request_of_a_connection_separately(half_plus_three):
    with connect(half_plus_three) as client:
        for _ in range(5):
            client.sendall(HEALTH[:-2] + b"a: " + b"a" * 60_000 + b"\r\n\r\n")
            assert is_alive(client)


def test_pipelined_requests_wait_for_the_responses(half_plus_three):
    with connect(half_plus_three) as client:
        client.sendall(HEALTH * 9 + HEALTH[:-2] + b"connection: close\r\n\r\n")
        assert read_all(client).count(b"200 OK") == 10
    with connect(half_plus_three) as client:
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):  # the server stops reading
            send_forever(client, HEALTH * 1000)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_client_that_does_not_read_is_disconnected(tmp_path, authority, is_encrypted):
    secured = {}
    if is_encrypted:
        served = tls.load(*authority.issue("server"), None)
        secured = {"tls": served, **authority.clients()}
    small_models.save_types(tmp_path / "types")
    limits = RequestLimits(max_connections=1, request_seconds=2)
    # More than the socket buffers hold of a response.
    row = {"text": "a" * 4_000_000, "numbers": [1, 2], "count": 1}
    body = json.dumps({"instances": [row]}).encode()
    head = UNFINISHED.replace(b"counter", b"types").replace(b"100", b"%d" % len(body))
    with (
        running(tmp_path / "types", limits=limits, **secured) as server,
        contextlib.ExitStack() as stack,
    ):
        client = stack.enter_context(socket.socket())
        client.settimeout(10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((server.http.base_url.host, server.http.base_url.port))
        if is_encrypted:
            context = secured["verify"]
            client = context.wrap_socket(client, server_hostname="127.0.0.1")
            stack.enter_context(client)
        client.sendall(head.removesuffix(b"{") + body)
        # The server writes the response of a request after it counts the request.
        labels = {"transport": "REST", "api": "predict", "code": "200"}
        labels["signature"] = "serving_default"
        wait_until(lambda: server.sample("serving_requests_total", **labels))
        if is_encrypted:  # the response would need a handshake
            with pytest.raises(httpx.TransportError):
                server.http.get("/healthz")
        else:
            refused = server.http.get("/healthz")
            check_refused(refused, "1 connections (--max-connections)", status=503)
        wait_until(lambda: is_served(server))


def test_unfinished_body_is_refused_at_its_deadline(limited):
    with connect(limited) as client:
        client.sendall(UNFINISHED)
        response = read_all(client)
    assert b"504 Gateway Timeout" in response
    assert b"connection: close" in response
    assert b"took more than 1 s" in response


def test_prediction_that_takes_too_long_keeps_the_connection(limited):
    base = limited.http.base_url
    with contextlib.closing(HTTPConnection(base.host, base.port)) as client:
        client.connect()
        connection = client.sock
        for power in range(10, 30, 2):
            body = json.dumps({"instances": [2**power]})
            client.request("POST", "/v1/models/counter:predict", body)
            response = client.getresponse()
            response.read()
            if response.status == 504:
                break
        assert response.status == 504
        client.request("GET", "/healthz")
        assert client.getresponse().status == 200
        assert client.sock is connection


def test_client_that_leaves_while_it_sends_logs_no_error(limited, caplog):
    with connect(limited) as client:
        client.sendall(UNFINISHED)
    labels = {"transport": "REST", "api": "predict", "signature": ""}
    wait_until(
        lambda: limited.sample("serving_requests_total", **labels, code="CANCELLED")
    )
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_unfinished_body_does_not_delay_the_shutdown(counter):
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
        assert server.sample("serving_batch_rows_count") < 900
        assert server.sample("serving_queued_rows") == 0
