"""TLS of both protocols: the server's certificate and key, and the CA of clients."""

from __future__ import annotations

import datetime
import logging
import os
import ssl
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from serving.errors import SettingsError

logger = logging.getLogger(__name__)

_CERTIFICATE, _KEY, _CLIENT_CA = "--tls-cert", "--tls-key", "--tls-client-ca"


class Tls:
    """The certificate and key, which are read again after they have changed.

    Args:
      certificate: The certificate in PEM, with those between it and its CA.
      key: Its private key in PEM, which is not encrypted.
      client_ca: The certificates in PEM of the CAs of clients. Every client needs a
        certificate of one of them; None to require none.

    Attributes:
      context: The context of HTTP.

    Raises:
      SettingsError: A file cannot be used.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._stamp = self._read_stamp()
        self._certificates = self._check()
        self.context = self._build_context()

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials of gRPC, which follow `refresh`."""
        return grpc.dynamic_ssl_server_credentials(
            self._certificates,
            lambda: self._certificates,
            require_client_authentication=self._client_ca is not None,
        )

    def refresh(self) -> None:
        """Reads a changed certificate and key, for new connections.

        Files that cannot be used are a warning, and the earlier ones stay.
        """
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            certificates = self._check()
            self._build_context()  # fails before the context in use has changed
            self.context.load_cert_chain(self._certificate, self._key)
        except (SettingsError, OSError) as error:
            logger.warning("the earlier TLS certificate stays in use: %s", error)
        else:
            self._certificates = certificates
            logger.info("read the TLS certificate again: %s", self._certificate)

    def _build_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._certificate, self._key)
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self._client_ca)
        return context

    def _check(self) -> grpc.ServerCertificateConfiguration:
        """Returns what gRPC needs; raises a SettingsError that names the file."""
        chain, key = _read(_CERTIFICATE, self._certificate), _read(_KEY, self._key)
        (certificate, *_) = _parse_certificates(_CERTIFICATE, self._certificate, chain)
        try:
            private = serialization.load_pem_private_key(key, None)
        except TypeError as error:
            raise SettingsError(
                f"{_KEY} {self._key}: the key is encrypted; decrypt it with: openssl "
                f"pkey -in {self._key}"
            ) from error
        except ValueError as error:
            raise SettingsError(
                f"{_KEY} {self._key}: this is not a private key in PEM"
            ) from error
        if private.public_key() != certificate.public_key():
            raise SettingsError(
                f"{_KEY} {self._key}: the key does not match the certificate of "
                f"{_CERTIFICATE} {self._certificate}"
            )
        roots = None
        if self._client_ca is not None:
            roots = _read(_CLIENT_CA, self._client_ca)
            _parse_certificates(_CLIENT_CA, self._client_ca, roots)
        return grpc.ssl_server_certificate_configuration([(key, chain)], roots)

    def _read_stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        stamps: list[tuple[int, int, int] | None] = []
        for path in (self._certificate, self._key):
            try:
                status = os.stat(path)
            except OSError:  # reported when it is read
                stamps.append(None)
            else:
                stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(stamps)


def load(
    certificate: Path | None, key: Path | None, client_ca: Path | None
) -> Tls | None:
    """Returns the TLS of the options; None without them.

    Raises:
      SettingsError: An option is missing, or its file cannot be used.
    """
    if certificate is not None and key is not None:
        return Tls(certificate, key, client_ca)
    given = {_CERTIFICATE: certificate, _KEY: key, _CLIENT_CA: client_ca}
    for option, path in given.items():
        if path is not None:
            missing = _KEY if certificate is not None else _CERTIFICATE
            raise SettingsError(f"{option} {path}: add {missing}")
    return None


def _read(option: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{option} {path}: {error.strerror}") from error


def _parse_certificates(
    option: str, path: Path, content: bytes
) -> list[x509.Certificate]:
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise SettingsError(
            f"{option} {path}: this is not a certificate in PEM"
        ) from error
    now = datetime.datetime.now(datetime.timezone.utc)
    for certificate in certificates:
        start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not start <= now <= end:
            raise SettingsError(
                f"{option} {path}: a certificate is valid from {start:%Y-%m-%d %H:%M} "
                f"to {end:%Y-%m-%d %H:%M} UTC, and not now"
            )
    return certificates
