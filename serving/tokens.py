"""The bearer token that clients send, and its check over HTTP (RFC 6750)."""

from __future__ import annotations

import hmac
import re
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from contracts import wording
from contracts.errors import UsageError
from serving import private_files
from serving.access import ALIVE_PATH, READY_PATH

MIN_CHARACTERS = 16
_SETTING = "token_file"
_SYNTAX = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_SCHEME = b"bearer "
# Load balancers send no token to health checks. A browser sends none when it opens the
# page, whose files have nothing of the model but its name and the gRPC port.
_OPEN_PATHS = (ALIVE_PATH, READY_PATH, "/")
_OPEN_FOLDER = "/page/"
PROBLEM = "The request needs the server's token: Authorization: Bearer TOKEN"


class Token:
    """A token, which is in no log or error: its representation hides it.

    Args:
      value: The token.
    """

    def __init__(self, value: bytes) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "Token(...)"

    def allows(self, authorization: str | bytes) -> bool:
        """Returns whether an `Authorization` header has the token.

        The comparison takes the same time for all tokens of one length.
        """
        if isinstance(authorization, str):
            authorization = authorization.encode("utf-8", "surrogateescape")
        scheme, value = authorization[: len(_SCHEME)], authorization[len(_SCHEME) :]
        return scheme.lower() == _SCHEME and hmac.compare_digest(
            value.strip(b" "), self._value
        )


def read(path: Path) -> Token:
    """Reads the token of `--token-file`.

    Args:
      path: A file with one token. White space around it is ignored.

    Raises:
      UsageError: The file cannot be read or has no valid token.
    """
    value = private_files.read(_SETTING, path).strip()
    if len(value) < MIN_CHARACTERS or not _SYNTAX.fullmatch(value):
        raise UsageError(
            _SETTING,
            f"{path} has {wording.count(len(value), 'character')}",
            f"one token of at least {MIN_CHARACTERS} letters, digits and -._~+/",
            f"write one, such as: (umask 077; openssl rand -hex 32 > {path})",
            name="E-token-refused",
        )
    private_files.warn_if_public(path)
    return Token(value)


class TokenMiddleware:
    """Refuses HTTP requests without the token, except to health checks and the page.

    Args:
      app: The application.
      token: The token.
    """

    def __init__(self, app: ASGIApp, token: Token) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request to the application or refuses it."""
        app = self._app
        if scope["type"] == "http" and not self._is_allowed(scope):
            headers = {"WWW-Authenticate": "Bearer"}
            app = JSONResponse({"error": PROBLEM}, 401, headers)
        await app(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        path = scope["path"]
        if path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER):
            return True
        # Of two headers, a proxy may check the first and we the second.
        values = Headers(scope=scope).getlist("authorization")
        return len(values) == 1 and self._token.allows(values[0].encode("latin-1"))
