"""TLS: the server's certificate and key, and the CA of clients."""

from __future__ import annotations

import datetime
import logging
import os
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from contracts.errors import UsageError, named
from serving import private_files

logger = logging.getLogger(__name__)

_CERTIFICATE, _KEY, _CLIENT_CA = "tls_cert", "tls_key", "tls_client_ca"
# What OpenSSL, for HTTP, and BoringSSL, for gRPC, both serve.
_MIN_RSA_BITS = 2048
_CURVES = ("secp256r1", "secp384r1", "secp521r1")


class Pem(NamedTuple):
    """The contents of the files, which gRPC reads itself.

    Attributes:
      certificate: The certificate, with those between it and its CA.
      key: Its private key.
      client_ca: The CAs of clients; None to require none.
    """

    certificate: bytes
    key: bytes
    client_ca: bytes | None


class Tls:
    """The certificate, key and CA, which are read again after they have changed.

    Args:
      certificate: The certificate in PEM, with those between it and its CA.
      key: Its private key in PEM, which is not encrypted.
      client_ca: The certificates in PEM of the CAs of clients. Every client needs a
        certificate of one of them; None to require none.

    Attributes:
      context: The context of new HTTP connections. `refresh` replaces it.
      pem: The contents of the files. `refresh` replaces them.

    Raises:
      UsageError: A file cannot be used.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._problem = ""
        self._stamp = self._read_stamp()
        self.context, self.pem = self._load()

    def refresh(self) -> None:
        """Reads changed files, for new connections.

        If they cannot be used, the earlier ones stay, and the next call tries again.
        Each problem is logged once.
        """
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        try:
            context, pem = self._load()
        except UsageError as error:
            problem = named(error.sentence(_show_option), error.name)
            if problem != self._problem:
                logger.warning("the earlier TLS files stay in use: %s", problem)
            self._problem = problem
            return
        if self._read_stamp() != stamp:  # changed while they were read
            return
        self._stamp, self._problem = stamp, ""
        self.context, self.pem = context, pem
        logger.info("read the TLS files again: %s", self._certificate)

    def _load(self) -> tuple[ssl.SSLContext, Pem]:
        chain = private_files.read(_CERTIFICATE, self._certificate)
        key = private_files.read(_KEY, self._key)
        (certificate, *_) = _parse_certificates(_CERTIFICATE, self._certificate, chain)
        self._check_key(certificate, key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            context.load_cert_chain(self._certificate, self._key)
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise _refusal(
                _CERTIFICATE,
                f"{self._certificate}: OpenSSL refuses it or its `{_KEY}`: {reason}",
                advice=f"check both with: openssl x509 -text -in {self._certificate}",
            ) from error
        roots = None
        if self._client_ca is not None:
            roots = private_files.read(_CLIENT_CA, self._client_ca)
            _parse_certificates(_CLIENT_CA, self._client_ca, roots)
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(cadata=roots.decode("ascii", "ignore"))
            except ssl.SSLError as error:
                raise _refusal(
                    _CLIENT_CA,
                    f"{self._client_ca}: OpenSSL refuses it: {error.reason or error}",
                    "CA certificates in PEM",
                ) from error
        return context, Pem(chain, key, roots)

    def _check_key(self, certificate: x509.Certificate, key: bytes) -> None:
        try:
            public = certificate.public_key()
        except (ValueError, UnsupportedAlgorithm) as error:
            raise _unsupported(_CERTIFICATE, self._certificate) from error
        try:
            private = serialization.load_pem_private_key(key, None)
        except TypeError as error:
            raise _refusal(
                _KEY,
                f"{self._key} is encrypted",
                advice="decrypt it with: (umask 077; openssl pkey -in "
                f"{self._key} -out NEW_FILE)",
            ) from error
        except ValueError as error:
            raise _refusal(_KEY, f"{self._key}", "a private key in PEM") from error
        except UnsupportedAlgorithm as error:
            raise _unsupported(_KEY, self._key) from error
        if private.public_key() != public:
            raise _refusal(
                _KEY,
                f"{self._key} does not match the certificate {self._certificate}",
                advice="give the key that the certificate was requested with; the "
                "server's certificate is the first in its file",
            )
        if not _is_supported(public):
            raise _unsupported(_KEY, self._key)

    def _read_stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        stamps: list[tuple[int, int, int] | None] = []
        for path in filter(None, (self._certificate, self._key, self._client_ca)):
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
      UsageError: An option is missing, or its file cannot be used.
    """
    if certificate is not None and key is not None:
        private_files.warn_if_public(key)
        return Tls(certificate, key, client_ca)
    given = {_CERTIFICATE: certificate, _KEY: key, _CLIENT_CA: client_ca}
    for option, path in given.items():
        if path is not None:
            missing = _KEY if certificate is not None else _CERTIFICATE
            raise UsageError(
                option, str(path), advice=f"add `{missing}`", name="E-option-missing"
            )
    return None


def _show_option(name: str, value: str | None) -> str:
    option = f"--{name.replace('_', '-')}"
    return option if value is None else f"{option} {value}"


def _parse_certificates(
    setting: str, path: Path, content: bytes
) -> list[x509.Certificate]:
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except (ValueError, x509.InvalidVersion) as error:
        raise _refusal(setting, str(path), "certificates in PEM") from error
    now = datetime.datetime.now(datetime.timezone.utc)
    for certificate in certificates:
        start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not start <= now <= end:
            raise _refusal(
                setting,
                f"{path} has a certificate that is valid from {start:%Y-%m-%d %H:%M} "
                f"to {end:%Y-%m-%d %H:%M} UTC",
                advice="renew it, or check the clock of the machine: date -u",
            )
    return certificates


def _is_supported(key: Any) -> bool:
    """Returns whether both protocols can serve a public key."""
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size >= _MIN_RSA_BITS
    if isinstance(key, ec.EllipticCurvePublicKey):
        return key.curve.name in _CURVES
    return isinstance(key, ed25519.Ed25519PublicKey)


def _unsupported(setting: str, path: Path) -> UsageError:
    return _refusal(
        setting,
        f"the key of {path} is not supported",
        f"RSA of at least {_MIN_RSA_BITS} bits, EC on P-256, P-384 or P-521, Ed25519",
    )


def _refusal(
    setting: str, got: str, allowed: str | None = None, advice: str | None = None
) -> UsageError:
    return UsageError(setting, got, allowed, advice, name="E-tls-refused")
