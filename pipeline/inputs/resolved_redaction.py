"""Resolves the function that redacts the texts that a run shows."""

from __future__ import annotations

import dataclasses
import json

from contracts import fingerprint, redaction
from pipeline.config.recipe import Config
from pipeline.inputs.resolved_checks import find_code


@dataclasses.dataclass(frozen=True)
class ResolvedRedaction:
    """The function of `redact`.

    Attributes:
      function: `MODULE:FUNCTION`; None without one.
      directory: Contains the module; None if it is installed.
      modules: Its file and those that it imports, relative to the directory.
      fingerprint: The hash of its code, for cache keys.
    """

    function: str | None = None
    directory: str | None = None
    modules: tuple[str, ...] = ()
    fingerprint: str = ""

    def as_json(self) -> str:
        """Returns what `Redaction.parse` reads."""
        if self.function is None:
            return json.dumps(None)
        fields = ("function", "directory", "fingerprint")
        return json.dumps({name: getattr(self, name) for name in fields})


def resolve_redaction(config: Config) -> ResolvedRedaction:
    """Imports the function of `redact`.

    Raises:
      UsageError: It cannot be imported.
    """
    if config.redact is None:
        return ResolvedRedaction()
    redaction.import_function(config.redact, config.directory)
    module = config.redact.partition(":")[0]
    hashes, modules = find_code(module, config.directory)
    return ResolvedRedaction(
        config.redact,
        config.directory if modules else None,
        tuple(sorted(modules)),
        fingerprint.of_text(*hashes),
    )
