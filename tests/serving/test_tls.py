"""TLS over HTTP, with certificates of clients, and changed certificates."""

import contextlib
import datetime
import os
import shutil
import socket
import ssl
import time
import types
from random import Random

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from contracts.errors import UsageError
from serving import tls
from serving.batching import BatchingSettings
from serving.limits import RequestLimits
from tests.refusals import refused
from tests.serving import certificates
from tests.serving.certificates import Authority
from tests.serving.conftest import (
    PATIENCE_SECONDS,
    read_all,
    running,
    wait_until,
)

REFUSED = "E-tls-refused"
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
EC_KEY = bytes.fromhex("06072a8648ce3d0201")  # the identifier of EC keys, in DER
PREDICT = "/v1/models/half_plus_three:predict"
BODY = {"instances": [1.0]}


@pytest.fixture
def served(authority):
    """A certificate for this machine."""
    return tls.load(*authority.issue("server"), None)


@contextlib.contextmanager
def connected(server, authority):
    """A connection after its handshake."""
    url = server.http.base_url
    context = authority.clients()["verify"]
    with (
        socket.create_connection((url.host, url.port), PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        yield client


def served_certificate(server, authority):
    """Returns the serial number of the certificate of a new connection."""
    with connected(server, authority) as client:
        return int(client.getpeercert()["serialNumber"], 16)


def test_http_is_encrypted(stored, authority, served):
    limits = RequestLimits(header_seconds=0.5)
    with stored.running(tls=served, limits=limits, **authority.clients()) as server:
        assert server.predict_row().status_code == 200
        url = server.http.base_url
        # A client that does not trust the CA, and one without encryption.
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{url}/healthz")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{url.port}/healthz")
        # A client that never starts the handshake is closed, as one without headers.
        with socket.create_connection((url.host, url.port), 10) as silent:
            assert read_all(silent) == b""


def test_client_needs_a_certificate_of_the_clients_ca(stored, authority, tmp_path):
    clients = Authority(tmp_path, "clients")
    served = tls.load(*authority.issue("server"), clients.path)
    trusted = authority.clients(*clients.issue("client"))
    with stored.running(tls=served, **trusted) as server:
        assert server.predict_row().status_code == 200
        for pair in ((), authority.issue("stranger")):
            refused = authority.clients(*pair)
            with (
                pytest.raises((httpx.TransportError, ssl.SSLError)),
                httpx.Client(verify=refused["verify"]) as client,
            ):
                client.get(f"{server.http.base_url}/healthz")


def test_changed_certificate_is_served_to_new_connections(
    root, authority, tmp_path, caplog
):
    paths = certificates.replace(tmp_path, authority.issue("first"))
    served = tls.load(*paths, None)
    with running(root, tls=served, **authority.clients()) as server:
        first = served_certificate(server, authority)
        # A key of another kind and certificate: the earlier pair stays.
        second = authority.issue("second", key=rsa.generate_private_key(65537, 2048))
        certificates.replace(tmp_path, (second[0], authority.issue("other")[1]))
        wait_until(lambda: "does not match the certificate" in caplog.text)
        assert served_certificate(server, authority) == first
        certificates.replace(tmp_path, second)
        wait_until(lambda: served_certificate(server, authority) != first)
        expected = x509.load_pem_x509_certificate(second[0].read_bytes())
        assert served_certificate(server, authority) == expected.serial_number


def test_refused_rotation_is_tried_again_and_logged_once(
    authority, tmp_path, caplog, monkeypatch
):
    served = tls.load(*certificates.replace(tmp_path, authority.issue("first")), None)
    first = served.context
    now = datetime.datetime.now(datetime.timezone.utc)
    soon = now + datetime.timedelta(hours=1)
    certificates.replace(tmp_path, authority.issue("soon", start=soon))
    served.refresh()
    served.refresh()
    assert caplog.text.count("a certificate that is valid from") == 1
    assert served.context is first

    class Later(datetime.datetime):
        @classmethod
        def now(cls, zone=None):
            return soon

    later = types.SimpleNamespace(datetime=Later, timezone=datetime.timezone)
    monkeypatch.setattr(tls, "datetime", later)
    served.refresh()
    assert served.context is not first
    assert caplog.text.count("a certificate that is valid from") == 1


def test_changed_client_ca_counts_for_new_connections(root, authority, tmp_path):
    accepted = tmp_path / "clients.pem"
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    shutil.copy(old.path, accepted)
    served = tls.load(*authority.issue("server"), accepted)
    trusted, later = (authority.clients(*ca.issue("client")) for ca in (old, new))
    with running(root, tls=served, **trusted) as server:

        def is_accepted(client):
            try:
                with httpx.Client(verify=client["verify"]) as http:
                    http.get(f"{server.http.base_url}/healthz")
            except (httpx.TransportError, ssl.SSLError):
                return False
            return True

        assert is_accepted(trusted)
        assert not is_accepted(later)
        os.replace(shutil.copy(new.path, tmp_path / "copy"), accepted)
        wait_until(lambda: is_accepted(later))
        assert not is_accepted(trusted)


def test_handshakes_count_as_connections(root, authority, served):
    limits = RequestLimits(max_connections=3, header_seconds=60)
    with (
        running(root, tls=served, limits=limits, **authority.clients()) as server,
        contextlib.ExitStack() as stack,
    ):
        address = (server.http.base_url.host, server.http.base_url.port)
        # The last one replaces the idle connection of the client.
        for _ in range(limits.max_connections):
            stack.enter_context(socket.create_connection(address, PATIENCE_SECONDS))
        refused = socket.create_connection(address, PATIENCE_SECONDS)
        assert read_all(stack.enter_context(refused)) == b""
        assert server.sample("serving_refused_connections_total") == 1


def test_large_and_pipelined_requests_are_complete(root, authority, served):
    settings = {"tls": served, "batching": BatchingSettings(max_queued_rows=100_000)}
    with running(root, **settings, **authority.clients()) as server:
        rows = [float(number) for number in range(100_000)]
        response = server.http.post(PREDICT, json={"instances": rows})
        assert response.json()["predictions"] == [row / 2 + 3 for row in rows]
        last = HEALTH[:-2] + b"connection: close\r\n\r\n"
        with connected(server, authority) as client:
            client.sendall(HEALTH * 500 + last)
            assert read_all(client).count(b"200 OK") == 501


def test_idle_client_does_not_delay_the_shutdown(root, authority, served):
    with contextlib.ExitStack() as stack:
        with running(root, tls=served, **authority.clients()) as server:
            client = stack.enter_context(connected(server, authority))
            client.sendall(HEALTH)
            assert b"200 OK" in client.recv(1000)
            start = time.monotonic()
        assert time.monotonic() < start + 10  # --drain-seconds is 30
        assert server.drained == [True]


@pytest.fixture(scope="module")
def files(authority):
    """Certificates, keys and client CAs by what is wrong with them."""
    certificate, key = authority.issue("server")
    missing = authority.directory / "missing"
    unknown, malformed = authority.issue("unknown"), authority.issue("malformed")
    other = EC_KEY[:-1] + b"\x09"  # no algorithm has this identifier
    for path in unknown:
        certificates.damage(path, lambda der: der.replace(EC_KEY, other))
    certificates.damage(malformed[0], lambda der: der[:-100])
    weak, curve = rsa.generate_private_key(65537, 1024), ec.SECP256K1()
    return {
        "no key": (certificate, None),
        "no certificate": (None, key),
        "CA alone": (None, None, authority.path),
        "missing certificate": (missing, key),
        "missing key": (certificate, missing),
        "missing CA": (certificate, key, missing),
        "key as certificate": (key, key),
        "certificate as key": (certificate, certificate),
        "key as CA": (certificate, key, key),
        "other key": (certificate, authority.issue("other")[1]),
        "encrypted key": authority.issue("encrypted", password=b"a"),
        "RSA-1024": authority.issue("weak", key=weak),
        "secp256k1": authority.issue("curve", key=ec.generate_private_key(curve)),
        "unknown key": (certificate, unknown[1]),
        "unknown certificate": (unknown[0], key),
        "malformed": malformed,
        "expired": authority.issue("expired", days=-1),
    }


@pytest.mark.parametrize(
    ("case", "setting", "name", "problem"),
    [
        ("no key", "tls_cert", "E-option-missing", "add `tls_key`"),
        ("no certificate", "tls_key", "E-option-missing", "add `tls_cert`"),
        ("CA alone", "tls_client_ca", "E-option-missing", "add `tls_cert`"),
        ("missing certificate", "tls_cert", "E-storage-failed", "No such file"),
        ("missing key", "tls_key", "E-storage-failed", "No such file"),
        ("missing CA", "tls_client_ca", "E-storage-failed", "No such file"),
        ("key as certificate", "tls_cert", REFUSED, "certificates in PEM"),
        ("certificate as key", "tls_key", REFUSED, "a private key in PEM"),
        ("key as CA", "tls_client_ca", REFUSED, "certificates in PEM"),
        ("other key", "tls_key", REFUSED, "does not match the certificate"),
        ("encrypted key", "tls_key", REFUSED, "decrypt it with: (umask 077;"),
        ("expired", "tls_cert", REFUSED, "a certificate that is valid from"),
        ("RSA-1024", "tls_key", REFUSED, "RSA of at least 2048"),
        ("secp256k1", "tls_key", REFUSED, "not supported; allowed: RSA"),
        ("unknown key", "tls_key", REFUSED, "not supported; allowed: RSA"),
        ("unknown certificate", "tls_cert", REFUSED, "not supported; allowed: RSA"),
        ("malformed", "tls_cert", REFUSED, "certificates in PEM"),
    ],
)
def test_file_that_cannot_be_used_is_named(files, case, setting, name, problem):
    certificate, key, client_ca = (*files[case], None)[:3]
    paths = {"tls_cert": certificate, "tls_key": key, "tls_client_ca": client_ca}
    with refused(name, setting=setting) as error:
        tls.load(certificate, key, client_ca)
    assert str(paths[setting]) in error.value.got
    assert problem in str(error.value)


def test_damaged_files_are_refused_in_one_line(authority):
    pair = authority.issue("damaged")
    intact = [path.read_text() for path in pair]
    random = Random(0)
    messages = []
    for number in range(100):
        path, position = pair[number % 2], random.randrange(100)
        value = bytes([random.randrange(256)])

        def change(der, position=position, value=value):
            return der[:position] + value + der[position + 1 :]

        certificates.damage(path, change)
        try:
            tls.load(*pair, None)
        except UsageError as error:
            messages.append(str(error))
        path.write_text(intact[number % 2])
    assert len(messages) > 50
    assert not [message for message in messages if "\n" in message]


def test_key_that_everyone_can_read_is_a_warning(authority, caplog):
    certificate, key = authority.issue("public")
    tls.load(certificate, key, None)
    assert caplog.text == ""
    key.chmod(0o644)
    tls.load(certificate, key, None)
    assert caplog.text.count("every user of this machine can read it") == 1
    assert f"{key}: every user" in caplog.text


def test_no_option_is_no_tls():
    assert tls.load(None, None, None) is None
