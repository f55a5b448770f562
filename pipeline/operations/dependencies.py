"""What a run depends on besides its recipe, data and code."""

from __future__ import annotations

import logging
import os
import platform

from contracts import fingerprint
from pipeline.config.paths import OutputPaths
from pipeline.inputs.encoder_source import ResolvedEncoder
from pipeline.operations.record import RunRecord, is_run_id, read_record

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


def find(encoder: ResolvedEncoder) -> dict[str, str]:
    """Returns the versions of Python, of libraries, and the encoder's fingerprint."""
    libraries = fingerprint.library_versions(_LIBRARIES)
    identity = encoder.fingerprint[:_FINGERPRINT_DIGITS]
    return {"Python": platform.python_version(), **libraries, "encoder": identity}


def warn_of_changes(record: RunRecord, paths: OutputPaths) -> None:
    """Logs a warning of each dependency of a run that differs from the run before."""
    names = filter(is_run_id, os.listdir(paths.runs))
    runs = [read_record(paths.run(name)) for name in names if name != record.id]
    for previous in sorted(runs, key=lambda run: run.id, reverse=True):
        if previous.recipe == record.recipe and previous.dependencies:
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
