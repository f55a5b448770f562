"""Responds to HEAD wherever a server responds to GET."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadMiddleware:
    """Handles HEAD requests as GET requests, whose bodies uvicorn does not send.

    FastAPI's routes do not have HEAD
    (https://github.com/fastapi/fastapi/issues/1773).

    Args:
      app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request to the application."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
