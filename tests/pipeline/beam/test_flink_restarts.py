"""The restart strategy of Flink, and the advice for a cluster without one."""

import http.server
import json
import socket
import threading

import pytest

from pipeline.beam import flink_restarts


@pytest.fixture
def serve():
    """Serves settings as the REST API of Flink does; returns the address."""
    servers = []

    def serve(settings, body=None):
        pairs = [{"key": key, "value": value} for key, value in settings.items()]
        body = json.dumps(pairs).encode() if body is None else body

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path == "/jobmanager/config" else 404)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"localhost:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "repeats no lost work"),
        ({"restart-strategy": "none"}, "repeats no lost work"),
        ({"restart-strategy.type": "None"}, "repeats no lost work"),
        ({"restart-strategy.type": "fixed-delay"}, "fixed-delay.attempts is 1"),
        (flink_restarts.settings(1), "attempts-before-reset-backoff is 2"),
    ],
)
def test_cluster_that_repeats_too_little_gets_one_line_of_advice(
    serve, settings, problem
):
    master = serve(settings)
    advice = flink_restarts.advise(master, 2)
    assert "\n" not in advice
    assert advice.startswith(f"beam.restarts is 2, but the Flink cluster {master} ")
    assert problem in advice
    assert "restart-strategy.type: exponential-delay" in advice
    assert "attempts-before-reset-backoff: 4" in advice


@pytest.mark.parametrize(
    "settings",
    [
        {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "40",
        },
        {"restart-strategy": "exponential-delay"},  # without a limit
        flink_restarts.settings(2),
        {"restart-strategy.type": "org.example.OfTheUser"},
    ],
)
def test_cluster_that_repeats_enough_needs_no_advice(serve, settings):
    assert flink_restarts.advise(serve(settings), 2) is None


def test_without_restarts_no_strategy_is_needed(serve):
    assert flink_restarts.advise(f"http://{serve({})}", 0) is None


def test_address_without_flink_is_refused_with_the_setting():
    with pytest.raises(ConnectionError, match=r"beam\.master localhost:1: no Flink"):
        flink_restarts.advise("localhost:1", 2)


@pytest.mark.parametrize("body", [b"<html>", b'{"version": 1}', b"[1]"])
def test_another_service_than_flink_is_refused_with_the_setting(serve, body):
    with pytest.raises(ConnectionError, match=r"beam\.master localhost:\d+: no Flink"):
        flink_restarts.advise(serve({}, body), 2)


def test_service_of_another_protocol_is_refused_with_the_setting():
    with socket.create_server(("localhost", 0)) as server:

        def respond():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"\x00\x00\x12\x04")  # as gRPC begins

        threading.Thread(target=respond, daemon=True).start()
        with pytest.raises(ConnectionError, match="no Flink responds there"):
            flink_restarts.advise(f"localhost:{server.getsockname()[1]}", 2)
