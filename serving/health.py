"""The readiness of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from serving.loaded_versions import LoadedVersions


class Health:
    """Ready while a version is loaded and the server is not draining.

    Attributes:
      listeners: Called with the readiness after each scan and at the drain.
      is_draining: Whether the server finishes its requests and accepts no new ones.
    """

    def __init__(self, versions: LoadedVersions) -> None:
        self._versions = versions
        self.listeners: list[Callable[[bool], Awaitable[None]]] = []
        self.is_draining = False

    @property
    def is_ready(self) -> bool:
        """Whether the server accepts requests."""
        return self._versions.is_available and not self.is_draining

    async def publish(self) -> None:
        """Calls the listeners."""
        for listener in self.listeners:
            await listener(self.is_ready)
