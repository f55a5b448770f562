"""Certificates for the tests of TLS, which `cryptography` makes."""

import base64
import dataclasses
import datetime
import ipaddress
import os
import shutil
import ssl
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclasses.dataclass
class Authority:
    """A CA, which writes certificates and keys to a directory."""

    directory: Path
    name: str

    def __post_init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(self.name)
        certificate = (
            _builder(subject, self.key, subject, days=1)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
            .add_extension(_SIGNS_CERTIFICATES, True)
            .add_extension(self._key_identifier(), False)
            .sign(self.key, hashes.SHA256())
        )
        self.subject = subject
        self.path = self.directory / f"{self.name}.pem"
        self.path.write_bytes(_pem(certificate))

    def _key_identifier(self):
        return x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())

    def issue(self, name, *, days=1, password=None, key=None, start=None):
        """Writes NAME.pem and NAME.key for this machine; returns both paths."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            _builder(_name(name), key, self.subject, days, start)
            .add_extension(x509.SubjectAlternativeName([address]), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                    self._key_identifier()
                ),
                False,
            )
            .sign(self.key, hashes.SHA256())
        )
        encryption = (
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption()
        )
        path, key_path = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        path.write_bytes(_pem(certificate))
        key_path.touch(mode=0o600)
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                encryption,
            )
        )
        return path, key_path

    def clients(self, certificate=None, key=None):
        """Returns the arguments of `running` for clients that trust this CA."""
        context = ssl.create_default_context(cafile=self.path)
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default of Python 3.13
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        credentials = grpc.ssl_channel_credentials(
            self.path.read_bytes(),
            key and key.read_bytes(),
            certificate and certificate.read_bytes(),
        )
        return {"verify": context, "credentials": credentials}


def _name(name):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(subject, key, issuer, days, start=None):
    """Returns a builder; by default the certificate starts 2 days ago."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start or now - 2 * DAY)
        .not_valid_after(now + days * DAY)
    )


def damage(path, change):
    """Writes a PEM file again with other bytes in its DER."""
    first, *lines, last = path.read_text().splitlines()
    content = base64.encodebytes(change(base64.b64decode("".join(lines))))
    path.write_text(f"{first}\n{content.decode()}{last}\n")


def _pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def replace(directory, pair):
    """Replaces the certificate and the key that a server reads."""
    paths = (directory / "tls.crt", directory / "tls.key")
    for source, path in zip(pair, paths, strict=True):
        os.replace(shutil.copy(source, directory / "new"), path)
    return paths
