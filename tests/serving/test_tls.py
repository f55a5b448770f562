"""TLS over HTTP and gRPC, with certificates of clients, and changed certificates."""

import os
import shutil
import socket
import ssl

import grpc
import httpx
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving import tls
from serving.errors import SettingsError
from serving.limits import RequestLimits
from tests.serving import saved_models
from tests.serving.certificates import Authority
from tests.serving.conftest import PATIENCE_SECONDS, read_all, running, wait_until

PREDICT = "/v1/models/half_plus_three:predict"
BODY = {"instances": [1.0]}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The directory of the model of TensorFlow Serving's documentation."""
    root = tmp_path_factory.mktemp("served") / "half_plus_three"
    saved_models.save_half_plus_three(root / "1")
    return root


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """The CA of the server."""
    return Authority(tmp_path_factory.mktemp("tls"), "authority")


def check(channel):
    """Returns whether a server is ready, over gRPC."""
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest()
    status = stub.Check(request, timeout=PATIENCE_SECONDS).status
    return status == health_pb2.HealthCheckResponse.SERVING


def served_certificate(server, authority):
    """Returns the serial number of the certificate of a new connection."""
    url = server.http.base_url
    context = authority.clients()["verify"]
    with (
        socket.create_connection((url.host, url.port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        return int(client.getpeercert()["serialNumber"], 16)


def test_both_protocols_are_encrypted(root, authority):
    served = tls.load(*authority.issue("server"), None)
    limits = RequestLimits(header_seconds=0.5)
    with running(root, tls=served, limits=limits, **authority.clients()) as server:
        assert server.http.post(PREDICT, json=BODY).json() == {"predictions": [3.5]}
        assert check(server.channel)
        url = server.http.base_url
        # A client that does not trust the CA, and one without encryption.
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{url}/healthz")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{url.port}/healthz")
        address = f"127.0.0.1:{server.grpc_port}"
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
            check(channel)
        # A client that never starts the handshake is closed, as one without headers.
        with socket.create_connection((url.host, url.port), 10) as silent:
            assert read_all(silent) == b""


def test_client_needs_a_certificate_of_the_clients_ca(root, authority, tmp_path):
    clients = Authority(tmp_path, "clients")
    served = tls.load(*authority.issue("server"), clients.path)
    trusted = authority.clients(*clients.issue("client"))
    with running(root, tls=served, **trusted) as server:
        assert server.http.post(PREDICT, json=BODY).json() == {"predictions": [3.5]}
        assert check(server.channel)
        address = f"127.0.0.1:{server.grpc_port}"
        for files in ((), authority.issue("stranger")):
            refused = authority.clients(*files)
            with (
                pytest.raises((httpx.TransportError, ssl.SSLError)),
                httpx.Client(verify=refused["verify"]) as client,
            ):
                client.get(f"{server.http.base_url}/healthz")
            with (
                grpc.secure_channel(address, refused["credentials"]) as channel,
                pytest.raises(grpc.RpcError) as error,
            ):
                check(channel)
            assert error.value.code() is grpc.StatusCode.UNAVAILABLE


def test_changed_certificate_is_served_to_new_connections(
    root, authority, tmp_path, caplog
):
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def replace(pair):
        for source, path in zip(pair, (certificate, key), strict=True):
            os.replace(shutil.copy(source, tmp_path / "new"), path)

    replace(authority.issue("first"))
    served = tls.load(certificate, key, None)
    clients = authority.clients()
    with running(root, tls=served, **clients) as server:
        first = served_certificate(server, authority)
        # A key of another certificate: the earlier pair stays.
        second = authority.issue("second")
        replace((second[0], authority.issue("other")[1]))
        wait_until(lambda: "does not match the certificate" in caplog.text)
        assert served_certificate(server, authority) == first
        replace(second)
        wait_until(lambda: served_certificate(server, authority) != first)
        expected = x509.load_pem_x509_certificate(second[0].read_bytes())
        assert served_certificate(server, authority) == expected.serial_number
        address = ("127.0.0.1", server.grpc_port)
        pem = ssl.get_server_certificate(address)
        assert pem.split() == second[0].read_text().split()
        assert check(server.channel)


@pytest.mark.parametrize(
    ("case", "option", "problem"),
    [
        ("no key", "--tls-cert", "add --tls-key"),
        ("no certificate", "--tls-key", "add --tls-cert"),
        ("CA alone", "--tls-client-ca", "add --tls-cert"),
        ("missing certificate", "--tls-cert", "No such file or directory"),
        ("missing key", "--tls-key", "No such file or directory"),
        ("missing CA", "--tls-client-ca", "No such file or directory"),
        ("key as certificate", "--tls-cert", "this is not a certificate in PEM"),
        ("certificate as key", "--tls-key", "this is not a private key in PEM"),
        ("key as CA", "--tls-client-ca", "this is not a certificate in PEM"),
        ("other key", "--tls-key", "the key does not match the certificate of"),
        ("encrypted key", "--tls-key", "the key is encrypted; decrypt it with"),
        ("expired", "--tls-cert", "a certificate is valid from"),
    ],
)
def test_file_that_cannot_be_used_is_named(authority, case, option, problem):
    certificate, key = authority.issue("server")
    missing = authority.directory / "missing"
    files = {
        "no key": (certificate, None, None),
        "no certificate": (None, key, None),
        "CA alone": (None, None, authority.path),
        "missing certificate": (missing, key, None),
        "missing key": (certificate, missing, None),
        "missing CA": (certificate, key, missing),
        "key as certificate": (key, key, None),
        "certificate as key": (certificate, certificate, None),
        "key as CA": (certificate, key, key),
        "other key": (certificate, authority.issue("other")[1], None),
        "encrypted key": (*authority.issue("encrypted", password=b"a"), None),
        "expired": (*authority.issue("expired", days=-1), None),
    }[case]
    options = ("--tls-cert", "--tls-key", "--tls-client-ca")
    path = dict(zip(options, files, strict=True))[option]
    with pytest.raises(SettingsError) as error:
        tls.load(*files)
    assert str(error.value).startswith(f"{option} {path}: {problem}")


def test_no_option_is_no_tls():
    assert tls.load(None, None, None) is None
