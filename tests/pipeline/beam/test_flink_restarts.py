"""The restart strategy of Flink, and the advice for a cluster without one."""

import http.server
import json
import threading

import pytest

from pipeline.beam import flink_restarts


@pytest.fixture
def serve():
    """Serves settings as the REST API of Flink does; returns the address."""
    servers = []

    def serve(settings):
        body = json.dumps(
            [{"key": key, "value": value} for key, value in settings.items()]
        ).encode()

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


@pytest.mark.parametrize("settings", [{}, {"restart-strategy": "none"}])
def test_cluster_that_repeats_nothing_gets_one_line_of_advice(serve, settings):
    master = serve(settings)
    advice = flink_restarts.advise(master, 2)
    assert "\n" not in advice
    assert advice.startswith("beam.restarts is 2, but the Flink cluster")
    assert "restart-strategy.type: exponential-delay" in advice
    assert "attempts-before-reset-backoff: 4" in advice


@pytest.mark.parametrize(
    "settings",
    [
        {"restart-strategy.type": "fixed-delay"},
        {"restart-strategy": "failure-rate"},
        flink_restarts.settings(2),
    ],
)
def test_cluster_that_repeats_lost_work_needs_no_advice(serve, settings):
    assert flink_restarts.advise(serve(settings), 2) is None


def test_without_restarts_no_strategy_is_needed(serve):
    assert flink_restarts.advise(f"http://{serve({})}", 0) is None


def test_address_without_flink_is_refused_with_the_setting():
    with pytest.raises(ConnectionError, match=r"beam\.master localhost:1: no Flink"):
        flink_restarts.advise("localhost:1", 2)
