"""Hosts, origins and content types of HTTP requests."""

import json

import pytest

from serving.access import trusted_hosts
from tests.serving.conftest import INSTANCES, check_refused


def post(server, **headers):
    """Posts a request with headers whose names have underscores."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    name = server.versions.name
    path, body = f"/v1/models/{name}:predict", {"instances": [INSTANCES[name]]}
    return server.http.post(path, content=json.dumps(body), headers=headers).status_code


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8501", "127.0.0.1.evil.example"]
)
def test_foreign_host_is_refused_on_loopback(server, host):
    model = f"/v1/models/{server.versions.name}"
    files = ("/", "/card", "/page/page.js", "/openapi.json", "/metrics")
    for path in (*files, model, f"{model}/metadata", f"{model}/card"):
        response = server.http.get(path, headers={"host": host})
        allow = "is not allowed; allow it with --allowed-host"
        check_refused(response, f"Host {host} {allow}")
    assert post(server, host=host) == 400


@pytest.mark.parametrize(
    ("path", "status"), [("/healthz", "alive"), ("/readyz", "ready")]
)
def test_health_check_may_send_any_host(server, path, status):
    response = server.http.get(path, headers={"host": "10.1.2.3:8501"})
    assert (response.status_code, response.json()) == (200, {"status": status})


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8501", "[::1]"]
)
def test_loopback_names_are_allowed(server, host):
    assert post(server, host=host) == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:1", "https://localhost", "null"]
)
@pytest.mark.parametrize("content_type", ["text/plain", "application/json"])
def test_foreign_origin_is_refused(server, origin, content_type):
    assert post(server, origin=origin, content_type=content_type) == 403


def test_page_of_the_server_itself_must_send_json(server):
    base = server.http.base_url
    origin = f"http://{base.host}:{base.port}"
    for content_type in (
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=a",
    ):
        headers = {"origin": origin, "content_type": content_type}
        assert post(server, **headers) == 415
    assert post(server, origin=origin) == 415
    for content_type in ("application/json", "application/json; charset=utf-8"):
        headers = {"origin": origin, "content_type": content_type}
        assert post(server, **headers) == 200


def test_client_without_an_origin_may_send_any_content_type(server):
    # `curl -d`, as in TensorFlow Serving's documentation, and a client that sends none.
    content_type = "application/x-www-form-urlencoded"
    assert post(server, content_type=content_type) == 200
    assert post(server) == 200


def test_allowed_host_may_be_a_host_or_an_origin(stored):
    with stored.running(allowed_hosts=("bert.example", "*.test")) as server:
        assert post(server, host="bert.example:80") == 200
        assert post(server, host="evil.example") == 400
        assert post(server, host="localhost") == 200
        is_json = {"content_type": "application/json"}
        assert post(server, origin="https://bert.example", **is_json) == 200
        assert post(server, origin="https://a.test:8443", **is_json) == 200
        proxied = {"host": "bert.example", "origin": "https://bert.example", **is_json}
        assert post(server, **proxied) == 200
        assert post(server, origin="https://evil.example", **is_json) == 403


@pytest.mark.parametrize(
    ("host", "allowed", "expected"),
    [
        ("127.0.0.1", (), ["localhost", "127.0.0.1", "::1"]),
        ("::1", (), ["localhost", "127.0.0.1", "::1"]),
        ("localhost", ("a",), ["localhost", "127.0.0.1", "::1", "a"]),
        ("127.0.0.2", (), ["localhost", "127.0.0.1", "::1", "127.0.0.2"]),
        ("0.0.0.0", (), ["*"]),
        ("10.1.2.3", ("a",), ["localhost", "127.0.0.1", "::1", "10.1.2.3", "a"]),
    ],
)
def test_hosts_are_restricted_on_loopback_or_by_choice(host, allowed, expected):
    assert trusted_hosts(host, allowed) == expected
