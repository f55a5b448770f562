"""What a run depends on besides its recipe, data and code."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterable

from modules import fingerprint
from pipeline.config.recipe import Config
from pipeline.inputs.encoder_source import ResolvedEncoder
from pipeline.runs.run_record import RunRecord

_LIBRARIES = (
    *fingerprint.TRAINER_LIBRARIES,
    "tfx",
    "tensorflow-data-validation",
    "tensorflow-model-analysis",
    "apache-beam",
    "numpy",
)
_FINGERPRINT_DIGITS = 12

logger = logging.getLogger(__name__)


def find(config: Config, encoder: ResolvedEncoder) -> dict[str, str]:
    """Returns the versions of Python and of libraries, and the encoder.

    Args:
      config: The settings.
      encoder: The encoder that they name.
    """
    source = f"{config.encoder.source} ({encoder.fingerprint[:_FINGERPRINT_DIGITS]})"
    libraries = fingerprint.library_versions(_LIBRARIES)
    return {"Python": platform.python_version(), **libraries, "the encoder": source}


def warn_of_changes(record: RunRecord, runs: Iterable[RunRecord]) -> None:
    """Logs a warning of each dependency that differs from the run before.

    Args:
      record: The new run, whose dependencies are known.
      runs: All runs of the output directory, the newest first.
    """
    for previous in runs:
        if (
            previous.id != record.id
            and previous.recipe == record.recipe
            and previous.dependencies
        ):
            for name, value in record.dependencies.items():
                before = previous.dependencies.get(name, value)
                if value != before:
                    logger.warning(
                        "%s is %s; it was %s in run %s",
                        name,
                        value or "not installed",
                        before or "not installed",
                        previous.id,
                    )
            return
