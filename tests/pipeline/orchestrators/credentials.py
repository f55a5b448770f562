"""Google service accounts whose token endpoint is on loopback, and certificates."""

import datetime
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

ACCESS_TOKEN = "an-access-token"
ID_TOKEN = "an-id-token"


class TokenEndpoint(BaseHTTPRequestHandler):
    """Responds as Google's OAuth endpoint."""

    status = 200

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        content = {
            "access_token": ACCESS_TOKEN,
            "id_token": ID_TOKEN,
            "expires_in": 60,
        }
        if self.status != 200:
            content = {
                "error": "invalid_grant",
                "error_description": "key was deleted",
            }
        body = json.dumps(content).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class DeletedKey(TokenEndpoint):
    """Refuses a key that was deleted."""

    status = 400


def _key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _pem(key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def write_key(file: Path) -> Path:
    """Writes a new private key (PEM)."""
    file.write_bytes(_pem(_key()))
    return file


def write_service_account(file: Path, key_file: Path, token_uri: str) -> Path:
    """Writes the key file of a service account, as Google Cloud's."""
    account = {
        "type": "service_account",
        "project_id": "a-project",
        "private_key_id": "1",
        "private_key": key_file.read_text(),
        "client_email": "runner@a-project.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": token_uri,
    }
    file.write_text(json.dumps(account))
    return file


def write_certificate(certificate: Path, private_key: Path) -> None:
    """Writes a self-signed certificate of localhost."""
    key = _key()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .sign(key, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private_key.write_bytes(_pem(key))
