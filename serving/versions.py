"""Which versions are in memory: loads new ones, and lets go of old ones after use."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from serving import discovery
from serving.errors import RequestError, invalid
from serving.metrics import Metrics

if TYPE_CHECKING:
    from serving.models import Model

logger = logging.getLogger(__name__)


class State(enum.Enum):
    """Of a version; the values are those of TensorFlow Serving's protocol."""

    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclasses.dataclass
class Version:
    """A version that the server knows.

    Attributes:
      number: The version.
      state: Its state.
      error: The message for clients if it could not be loaded; None if it could.
      model: What answers, while it is in memory.
      users: Requests that it is answering.
      files: What could not be loaded, to try again only once it has changed.
    """

    number: int
    state: State = State.LOADING
    error: str | None = None
    model: Model | None = None
    users: int = 0
    files: frozenset[tuple[str, int, int]] = frozenset()


class Versions:
    """The versions of one model. Lives on one event loop; loads in a thread."""

    def __init__(
        self,
        source: discovery.Source,
        load: Callable[[Path, int], Model],
        metrics: Metrics,
        *,
        keep: int = 1,
        labels: Mapping[str, int] | None = None,
    ) -> None:
        """Loads nothing yet.

        Args:
          source: Where versions come from.
          load: Loads a directory as a version and warms it up; called in a thread.
          metrics: Told of every load.
          keep: How many of the newest versions stay in memory.
          labels: Names of versions, which stay in memory too.
        """
        self._source = source
        self._load = load
        self._metrics = metrics
        self._keep = keep
        self._labels = dict(labels or {})
        self._versions: dict[int, Version] = {}
        self._loader = ThreadPoolExecutor(1, "loader")
        self._is_orphaned = False

    @property
    def name(self) -> str:
        """The model's name in requests."""
        return self._source.name

    @property
    def is_available(self) -> bool:
        """Whether any version can answer."""
        return bool(self._available())

    async def refresh(self) -> None:
        """Loads what is new in the directory, then lets go of what is not wanted."""
        paths = await self._run(self._source.scan, set(self._available()))
        wanted = [
            number
            for number in sorted(set(self._labels.values()) & paths.keys())
            if await self._is_loaded(number, paths[number])
        ]
        newest = 0
        # One that cannot be loaded leaves its place to the next older one.
        for number in sorted(paths, reverse=True):
            if newest < self._keep and await self._is_loaded(number, paths[number]):
                wanted.append(number)
                newest += 1
        self._tell_if_orphaned(is_orphaned=not wanted and self.is_available)
        if wanted:
            for number in self._available().keys() - set(wanted):
                self._retire(self._versions[number])

    @contextlib.contextmanager
    def use(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> Iterator[Model]:
        """Keeps a version in memory for as long as a request needs it.

        Args:
          name: The model's name in the request.
          version: Its version; None is the newest.
          label: Or its label.

        Raises:
          RequestError: There is no such model, version or label.
        """
        if label is not None:
            version = self.resolve(label)
        available = self._available()
        number = max(available, default=None) if version is None else version
        if name != self.name or number not in available:
            asked = (
                f"Latest({name})" if version is None else f"Specific({name}, {version})"
            )
            raise _not_found(f"Servable not found for request: {asked}")
        used = available[number]
        assert used.model is not None
        used.users += 1
        try:
            yield used.model
        finally:
            used.users -= 1
            if used.state is State.UNLOADING and not used.users:
                self._unload(used)

    def resolve(self, label: str) -> int:
        """Returns the version of a label.

        Raises:
          RequestError: There is no such label.
        """
        if label not in self._labels:
            raise invalid(f"Unrecognized servable version label: {label}")
        return self._labels[label]

    def describe(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> list[Version]:
        """Returns the versions that were seen, the newest first.

        Args:
          name: The model's name in the request.
          version: The only one that is asked for; None for all.
          label: Or its label.

        Raises:
          RequestError: There is no such model, version or label.
        """
        if label is not None:
            version = self.resolve(label)
        known = self._versions if name == self.name else {}
        if version is not None and version not in known:
            raise _not_found(f"Could not find version {version} of model {name}")
        if not known:
            raise _not_found(f"Could not find any versions of model {name}")
        numbers = sorted(known, reverse=True) if version is None else [version]
        return [known[number] for number in numbers]

    def _available(self) -> dict[int, Version]:
        return {
            number: version
            for number, version in self._versions.items()
            if version.state is State.AVAILABLE
        }

    async def _is_loaded(self, number: int, path: Path) -> bool:
        """Loads a version unless it is there; tells whether it is now."""
        known = self._versions.get(number)
        if known is not None and known.state is not State.END:
            return known.state is State.AVAILABLE
        files = await self._run(discovery.fingerprint, path)
        if known is not None and known.error is not None and known.files == files:
            return False
        version = self._versions[number] = Version(number, files=files)
        start = time.perf_counter()
        try:
            version.model = await self._run(self._load, path, number)
        except Exception as error:  # noqa: BLE001 (told in the log and the status)
            version.state = State.END
            name = type(error).__name__
            # Clients see this; the message itself has paths of this machine.
            version.error = f"{name}: the version cannot be loaded, see the log"
            self._metrics.loads.labels("error").inc()
            logger.error("cannot load %s: %s: %s", path, name, error)
            return False
        seconds = time.perf_counter() - start
        version.state = State.AVAILABLE
        self._metrics.loads.labels("ok").inc()
        self._metrics.load_seconds.labels(number).set(seconds)
        self._metrics.loaded_versions.inc()
        logger.info("loaded %s version %d in %.1f s", self.name, number, seconds)
        return True

    def _retire(self, version: Version) -> None:
        version.state = State.UNLOADING
        if not version.users:
            self._unload(version)

    def _unload(self, version: Version) -> None:
        version.model = None
        version.state = State.END
        self._metrics.loaded_versions.dec()
        self._metrics.load_seconds.remove(version.number)
        # A SavedModel in memory refers to itself. Not on the event loop: it takes long.
        self._loader.submit(gc.collect)
        logger.info("unloaded %s version %d", self.name, version.number)

    def _tell_if_orphaned(self, *, is_orphaned: bool) -> None:
        if is_orphaned and not self._is_orphaned:
            logger.warning(
                "%s holds no version that can be loaded; version %s stays in memory",
                self._source.directory,
                max(self._available()),
            )
        self._is_orphaned = is_orphaned

    async def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._loader, function, *arguments)


def _not_found(message: str) -> RequestError:
    return RequestError(grpc.StatusCode.NOT_FOUND, message)
