"""Which hosts and origins may use the HTTP server from a browser.

A page of any site can send requests to a server on the user's machine. It is stopped by
the `Host` header, which names the site after DNS rebinding, and by the `Origin` header,
which browsers send with every POST. `application/json` cannot be sent to another origin
without a preflight request, which the server does not answer.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]
_ANY = "*"
_JSON = "application/json"


def trusted_hosts(host: str, allowed: Sequence[str]) -> list[str]:
    """Returns the values of the `Host` header that are answered, without ports.

    Args:
      host: The address that the server listens on.
      allowed: Further hosts. Without any, an address that other machines can reach is
        answered under every name.
    """
    if not allowed and not _is_loopback(host):
        return [_ANY]
    own = f"[{host}]" if ":" in host else host
    return list(dict.fromkeys([*_LOOPBACK, own, *allowed]))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class OriginMiddleware:
    """Refuses requests of pages of other origins, and a browser's that are not JSON.

    Requests without an `Origin` header pass: clients that are no browser send none.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Sequence[str]) -> None:
        """Wraps an application.

        Args:
          app: The application.
          allowed_hosts: Hosts, or `*.` and a domain, whose pages may send requests, as
            behind a proxy that replaces the `Host` header.
        """
        self._app = app
        self._allowed_hosts = [host.lower() for host in allowed_hosts]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        status, problem = self._check(scope) if scope["type"] == "http" else (200, "")
        if not problem:
            await self._app(scope, receive, send)
            return
        await JSONResponse({"error": problem}, status)(scope, receive, send)

    def _check(self, scope: Scope) -> tuple[int, str]:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is None:
            return 200, ""
        if not self._is_allowed(origin, headers.get("host", "")):
            return 403, (
                f"Origin {origin[:200]} is not allowed; allow its host with "
                "--allowed-host"
            )
        content_type = headers.get("content-type", "").partition(";")[0].strip()
        if scope["method"] == "POST" and content_type.lower() != _JSON:
            return 415, (
                f"Content-Type {content_type[:200]!r} is not allowed from a browser; "
                f"send {_JSON}"
            )
        return 200, ""

    def _is_allowed(self, origin: str, host: str) -> bool:
        try:
            site = urlsplit(origin)
        except ValueError:
            return False
        if site.netloc and site.netloc.lower() == host.lower():
            return True  # also over HTTPS, which ends at a proxy
        name = site.netloc.lower().rpartition("@")[2]
        name = name[: name.index("]") + 1] if "]" in name else name.partition(":")[0]
        return bool(name) and any(
            pattern in (_ANY, name)
            or (pattern.startswith("*.") and name.endswith(pattern[1:]))
            for pattern in self._allowed_hosts
        )
