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

_LOOPBACK = ["localhost", "127.0.0.1", "::1"]
# Load balancers and Kubernetes send them an address as the host.
_PROBES = ("/healthz", "/readyz")
_ANY = "*"
_JSON = "application/json"


def trusted_hosts(host: str, allowed: Sequence[str]) -> list[str]:
    """Returns the hosts that the `Host` header may name.

    Args:
      host: The address that the server listens on.
      allowed: Further hosts. Without any, an address that other machines can reach
        allows every host.
    """
    if not allowed and not _is_loopback(host):
        return [_ANY]
    return list(dict.fromkeys([*_LOOPBACK, host, *allowed]))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AccessMiddleware:
    """Refuses other hosts, pages of other origins, and a browser's POST without JSON.

    Requests without an `Origin` header pass: clients that are no browser send none.
    """

    def __init__(self, app: ASGIApp, host: str, allowed_hosts: Sequence[str]) -> None:
        """Wraps an application.

        Args:
          app: The application.
          host: The address that the server listens on.
          allowed_hosts: Further hosts, or `*.` and a domain, that the server is reached
            by. Their pages may send requests, as behind a proxy that replaces the
            `Host` header.
        """
        self._app = app
        allowed = [name.lower().strip("[]") for name in allowed_hosts]
        self._hosts = trusted_hosts(host, allowed)
        self._origins = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        status, problem = self._check(scope) if scope["type"] == "http" else (200, "")
        if not problem:
            await self._app(scope, receive, send)
            return
        await JSONResponse({"error": problem}, status)(scope, receive, send)

    def _check(self, scope: Scope) -> tuple[int, str]:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        is_probe = scope["path"] in _PROBES
        if not is_probe and not _matches(_hostname(f"//{host}"), self._hosts):
            return 400, (
                f"Host {host[:200]} is not allowed; allow it with --allowed-host"
            )
        if origin is None:
            return 200, ""
        site = _hostname(origin)
        if not _is_same(origin, host) and not (site and _matches(site, self._origins)):
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


def _is_same(origin: str, host: str) -> bool:
    """Tells whether an origin is the host; its scheme is not known behind a proxy."""
    _, _, site = origin.partition("://")
    return bool(site) and site.lower() == host.lower()


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # of an IPv6 address without its end
        return ""


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(
        pattern in (_ANY, name)
        or (pattern.startswith("*.") and name.endswith(pattern[1:]))
        for pattern in patterns
    )
