"""The page to try a model, the page of its card, and their security headers."""

from __future__ import annotations

import html
import importlib.resources
import string
import urllib.parse

from fastapi import responses
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving import card

_DIRECTORY = "web"
# The page loads its own files and calls its own server, and nothing else.
_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
)
_HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Browsers revalidate each file, and get status 304 if it is unchanged. Otherwise an
    # updated server would meet the old page.
    "Cache-Control": "no-cache",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class HeadersMiddleware:
    """Adds the security headers to every response.

    Args:
      app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # ASGI has lower-case names.
        self._headers = [
            (name.lower().encode(), value.encode()) for name, value in _HEADERS.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request to the application."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def files() -> StaticFiles:
    """Returns the application that serves the page's style, scripts and icon."""
    return StaticFiles(packages=[(__package__, _DIRECTORY)])


def render(**values: str) -> responses.HTMLResponse:
    """Returns the page to try the model.

    Args:
      **values: `model`, `signature` and `grpc_port` of the requests that it sends or
        shows, and `needs_token`, empty if they need none.
    """
    escaped = {name: html.escape(value) for name, value in values.items()}
    return _fill_in("page.html", **escaped)


def render_card(model: str, version: int, text: str) -> responses.HTMLResponse:
    """Returns the page of a model card.

    Args:
      model: The model's name.
      version: Its version.
      text: The version's card, in Markdown.
    """
    name = urllib.parse.quote(model, safe="")
    return _fill_in(
        "card.html",
        model=html.escape(model),
        version=str(version),
        markdown=f"/v1/models/{name}/versions/{version}/card",
        card=card.render(text),
    )


def _fill_in(name: str, **values: str) -> responses.HTMLResponse:
    path = importlib.resources.files(__package__) / _DIRECTORY / name
    template = string.Template(path.read_text(encoding="utf-8"))
    return responses.HTMLResponse(template.substitute(values))
