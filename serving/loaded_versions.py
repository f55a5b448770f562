"""Loads new versions of a model, and unloads old ones after their last request."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from contracts.versions import served_versions
from serving import discovery
from serving.errors import ProcessEndedError, invalid, not_found, unavailable
from serving.model_facts import ServedModel
from serving.monitoring import Metrics

logger = logging.getLogger(__name__)

_STABLE_SECONDS = 60
_MAX_DELAY_SECONDS = 60


class State(enum.Enum):
    """The state of a version, with the values of TensorFlow Serving's protocol."""

    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclasses.dataclass
class Version:
    """A version that the server has seen.

    Attributes:
      number: The version.
      state: The state.
      error: The message for clients if loading failed; None otherwise.
      model: The model, while it is in memory.
      users: Requests that use the model.
      files: Fingerprint of the files.
      deaths: How often in a row its process has ended soon.
      started: When it was loaded, or began to load, in seconds of a monotonic clock.
      retry: When it may be loaded again, if its files have not changed; infinity after
        an error of the model.
    """

    number: int
    state: State = State.LOADING
    error: str | None = None
    model: ServedModel | None = None
    users: int = 0
    files: frozenset[tuple[str, int, int]] = frozenset()
    deaths: int = 0
    started: float = dataclasses.field(default_factory=time.monotonic)
    retry: float = 0

    @property
    def is_restarting(self) -> bool:
        """Whether its process has ended, and will be replaced."""
        if self.model is not None:
            return not self.model.is_alive
        return self.deaths > 0 and self.retry < math.inf

    def note_death(self) -> None:
        """Chooses when to replace its process: at once, or later after each time."""
        now = time.monotonic()
        self.deaths = 1 if now - self.started > _STABLE_SECONDS else self.deaths + 1
        delay = min(2.0 ** (self.deaths - 2), _MAX_DELAY_SECONDS)
        self.retry = now + delay * (self.deaths > 1)


class LoadedVersions:
    """The versions of one model. Use it on one event loop only; it loads in a thread.

    Args:
      source: The model's directory.
      load: Loads a directory as a version and warms it up; called in a thread, after
        the files were compared with the version's manifest.
      metrics: Counts loads and loaded versions.
      keep: How many of the newest versions stay in memory.
      labels: Versions by label, which stay in memory too.
    """

    def __init__(
        self,
        source: discovery.Source,
        load: Callable[[Path, int], ServedModel],
        metrics: Metrics,
        *,
        keep: int = 1,
        labels: Mapping[str, int] | None = None,
    ) -> None:
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
    def labels(self) -> list[str]:
        """The labels of versions."""
        return list(self._labels)

    @property
    def is_available(self) -> bool:
        """Whether any version is in memory."""
        return bool(self._available())

    async def refresh(self) -> None:
        """Loads new versions in the directory, then unloads those that they replace."""
        for version in self._versions.values():
            if version.model is not None and not version.model.is_alive:
                logger.error(
                    "the process of %s version %d has ended; it is loaded again",
                    self.name,
                    version.number,
                )
                version.note_death()
                self._unload(version)
        paths = await self._run(self._source.scan, set(self._available()))
        current = [
            number
            for number in sorted(set(self._labels.values()) & paths.keys())
            if await self._ensure_loaded(number, paths[number])
        ]
        newest = 0
        # If a version cannot be loaded, the next older one is loaded instead.
        for number in sorted(paths, reverse=True):
            if newest < self._keep and await self._ensure_loaded(number, paths[number]):
                current.append(number)
                newest += 1
        is_orphaned = not current and self.is_available
        if is_orphaned and not self._is_orphaned:
            logger.warning(
                "%s has no version that can be loaded; version %s stays in memory",
                self._source.directory,
                max(self._available()),
            )
        self._is_orphaned = is_orphaned
        if current:
            for number in self._available().keys() - set(current):
                version = self._versions[number]
                version.state = State.UNLOADING
                if not version.users:
                    self._unload(version)

    @contextlib.contextmanager
    def use(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> Iterator[ServedModel]:
        """Yields a model, which stays in memory until the context ends.

        Args:
          name: The model's name in the request.
          version: The version; None for the newest.
          label: A label instead of a version.

        Raises:
          RequestError: The model, version or label is not loaded.
        """
        if label is not None:
            version = self._resolve(label)
        available = self._available()
        number = max(available, default=None) if version is None else version
        if name != self.name or number not in available:
            suffix = "" if version is None else f" version {version}"
            known = self._versions if name == self.name else {}
            numbers = known if version is None else {version} & known.keys()
            if any(known[each].is_restarting for each in numbers):
                raise unavailable(f"model {name}{suffix} is loaded again")
            other = "" if name == self.name else f"; this server has {self.name}"
            raise not_found(f"model {name}{suffix} is not loaded{other}")
        used = available[number]
        assert used.model is not None
        used.users += 1
        try:
            yield used.model
        finally:
            used.users -= 1
            if used.state is State.UNLOADING and not used.users:
                self._unload(used)

    def _resolve(self, label: str) -> int:
        if label not in self._labels:
            raise invalid("version_label", label, ", ".join(self._labels) or "none")
        return self._labels[label]

    def describe(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> list[Version]:
        """Returns the versions that the server has seen, newest first.

        Args:
          name: The model's name in the request.
          version: The only version to return; None for all.
          label: A label instead of a version.

        Raises:
          RequestError: The model, version or label is unknown.
        """
        if label is not None:
            version = self._resolve(label)
        known = self._versions if name == self.name else {}
        if not known or (version is not None and version not in known):
            suffix = "" if version is None else f" version {version}"
            raise not_found(f"model {name}{suffix} is unknown")
        numbers = sorted(known, reverse=True) if version is None else [version]
        return [known[number] for number in numbers]

    def _available(self) -> dict[int, Version]:
        return {
            number: version
            for number, version in self._versions.items()
            if version.state is State.AVAILABLE
            and version.model is not None
            and version.model.is_alive
        }

    async def _ensure_loaded(self, number: int, path: Path) -> bool:
        """Loads a version unless it is in memory; returns whether it is available."""
        known = self._versions.get(number)
        if known is not None and known.state is not State.END:
            return known.state is State.AVAILABLE
        files = await self._run(discovery.fingerprint, path)
        version = Version(number, files=files)
        if known is not None and known.files == files:
            if time.monotonic() < known.retry:
                return False
            version.deaths = known.deaths
        self._versions[number] = version
        start = time.perf_counter()
        try:
            main_file = self._source.main_file
            pushed = served_versions.push_time(str(path), main_file)
            if unchecked := await self._run(
                served_versions.verify, str(path), main_file
            ):
                logger.warning("%s", unchecked)
            version.model = await self._run(self._load, path, number)
        except Exception as error:  # noqa: BLE001 (in the log and the status)
            version.state = State.END
            name = type(error).__name__
            # Clients see this; the message itself may name files of this machine.
            version.error = f"{name}: the version cannot be loaded, see the log"
            if isinstance(error, ProcessEndedError):
                version.note_death()
            else:
                version.retry = math.inf
            self._metrics.loads.labels("error").inc()
            logger.error("cannot load %s: %s: %s", path, name, error)
            return False
        seconds = time.perf_counter() - start
        version.state, version.started = State.AVAILABLE, time.monotonic()
        self._metrics.loads.labels("ok").inc()
        self._metrics.load_seconds.labels(number).set(seconds)
        age = self._metrics.model_age_seconds.labels(number)
        age.set_function(lambda: time.time() - pushed)
        self._metrics.loaded_versions.inc()
        logger.info("loaded %s version %d in %.1f s", self.name, number, seconds)
        return True

    def _unload(self, version: Version) -> None:
        assert version.model is not None
        version.model.close()
        version.model = None
        version.state = State.END
        self._metrics.loaded_versions.dec()
        self._metrics.load_seconds.remove(version.number)
        self._metrics.model_age_seconds.remove(version.number)
        logger.info("unloaded %s version %d", self.name, version.number)

    async def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._loader, function, *arguments)
