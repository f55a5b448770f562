"""Finds a pushed model, and reads its description."""

from __future__ import annotations

import logging
from typing import Any

from contracts.errors import UsageError
from contracts.storage import files, uris
from contracts.versions import exported_model, served_versions
from contracts.versions.exported_model import GRAPH_FILE

logger = logging.getLogger(__name__)


def not_pushed(directory: str, absent: str) -> UsageError:
    """Returns the error of a SavedModel that this pipeline did not push."""
    return UsageError(
        "model",
        f"{directory} has no {absent}",
        advice="give a model that this pipeline pushed",
        name="E-model-not-found",
    )


def read_description(directory: str) -> dict[str, Any]:
    """Reads the description of a SavedModel, as `write_description` writes it.

    Raises:
      UsageError: The model has none.
    """
    described = exported_model.read_description(directory)
    if described is None:
        raise not_pushed(directory, exported_model.DESCRIPTION_FILE)
    return described


def find_model(directory: str, main_file: str = GRAPH_FILE) -> str:
    """Returns the directory of a model, or of the newest of its versions.

    The contents of its files are compared with the version's manifest.

    Args:
      directory: Local, or remote (`gs://`).
      main_file: See `served_versions.is_model`.

    Raises:
      UsageError: There is no complete model, it cannot be read, a file differs from
        what was pushed, or TensorFlow would read its path as a file pattern.
    """
    if main_file == GRAPH_FILE:
        uris.refuse_pattern("model", directory)
    files.check_remote(directory)
    try:
        if served_versions.is_model(directory, main_file):
            if problem := served_versions.find_problem(directory, main_file):
                raise served_versions.VersionError(
                    directory,
                    f"incomplete: {problem}",
                    advice="copy the whole directory again, or give another version",
                    name="E-model-damaged",
                )
            return _verify(directory, main_file)
        served_versions.refuse_other_kind(directory, main_file)
        for version in served_versions.list_complete(directory, main_file):
            return _verify(uris.join(directory, version), main_file)
        is_directory = files.is_directory(directory)
    except OSError as error:
        raise UsageError(
            "model",
            f"{error.filename} cannot be read: {error.strerror}",
            advice="make it readable",
            name="E-storage-failed",
        ) from error
    kind, advice = (
        "SavedModel",
        "give the directory after `pushed` in the last line of the output of `run`",
    )
    if main_file != GRAPH_FILE:
        kind, advice = f"complete {main_file}", served_versions.PORTABLE_ADVICE
    raise UsageError(
        "model",
        f"{directory} has no {kind}"
        if is_directory
        else f"{directory}: no such directory",
        advice=advice,
        name="E-model-not-found",
    )


def _verify(version: str, main_file: str) -> str:
    """Returns the model of a version whose files are those that were pushed."""
    if unchecked := served_versions.verify(version, main_file):
        logger.warning("%s", unchecked)
    return served_versions.model_directory(version, main_file)
