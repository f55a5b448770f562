"""Checks the `Host`, `Origin` and `Content-Type` headers of HTTP requests.

A web page of any site can send requests to a server on the user's machine. After DNS
rebinding the `Host` header names that site, and browsers send the site as `Origin` with
every POST. A page cannot send `application/json` to another origin without a preflight
request, which the server refuses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

JSON = "application/json"
ALIVE_PATH, READY_PATH = "/healthz", "/readyz"
_ANY = "*"


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, not an address
        return host == "localhost"


def trusted_hosts(host: str, allowed: Sequence[str]) -> list[str]:
    """Returns the hosts that the `Host` header may name.

    Args:
      host: The address that the server listens on.
      allowed: Further hosts. If it is empty and other machines can reach the address,
        every host is allowed.
    """
    if not allowed and not is_loopback(host):
        return [_ANY]
    return list(dict.fromkeys(["localhost", "127.0.0.1", "::1", host, *allowed]))


class AccessMiddleware:
    """Refuses unknown hosts, pages of other origins, and content types other than JSON.

    Requests without an `Origin` header may have any content type: they do not come from
    a browser.

    Args:
      app: The application.
      host: The address that the server listens on.
      allowed_hosts: Further hosts, or `*.` and a domain. Their pages may send requests,
        also behind a proxy that replaces the `Host` header.
    """

    def __init__(self, app: ASGIApp, host: str, allowed_hosts: Sequence[str]) -> None:
        self._app = app
        self._origins = [name.lower().strip("[]") for name in allowed_hosts]
        self._hosts = trusted_hosts(host, self._origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request to the application or refuses it."""
        status, problem = self._check(scope) if scope["type"] == "http" else (200, "")
        if not problem:
            await self._app(scope, receive, send)
            return
        await JSONResponse({"error": problem}, status)(scope, receive, send)

    def _check(self, scope: Scope) -> tuple[int, str]:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        # Load balancers and Kubernetes send an address as the host.
        is_probe = scope["path"] in (ALIVE_PATH, READY_PATH)
        if not is_probe and not _matches(_hostname(f"//{host}"), self._hosts):
            return 400, (
                f"Host {host[:200]} is not allowed; allow it with --allowed-host"
            )
        if origin is None:
            return 200, ""
        # Compared without the scheme, which a proxy may have changed.
        _, _, authority = origin.lower().partition("://")
        is_same = bool(authority) and authority == host.lower()
        site = _hostname(origin)
        if not is_same and not (site and _matches(site, self._origins)):
            return 403, (
                f"Origin {origin[:200]} is not allowed; allow its host with "
                "--allowed-host"
            )
        content_type = headers.get("content-type", "").partition(";")[0].strip()
        if scope["method"] == "POST" and content_type.lower() != JSON:
            return 415, (
                f"Content-Type {content_type[:200]!r} is not allowed from a browser; "
                f"send {JSON}"
            )
        return 200, ""


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # an IPv6 address without its closing bracket
        return ""


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(
        pattern in (_ANY, name)
        or (pattern.startswith("*.") and name.endswith(pattern[1:]))
        for pattern in patterns
    )
