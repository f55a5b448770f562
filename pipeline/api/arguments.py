"""Further values that arguments allow, in Python and as options of the commands."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from bert_runtime.arguments import MinProbability as MinProbability
from bert_runtime.arguments import Port as Port
from bert_runtime.arguments import checked as checked
from contracts import wording
from contracts.errors import SettingError, UsageError
from contracts.storage import uris
from pipeline.config.paths import OutputPaths
from pipeline.onboarding.data_set import MOST_TEST_SIZE
from serving import discovery

Keep = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
TestSize = Annotated[float, Field(gt=0, le=MOST_TEST_SIZE)]
Version = Annotated[int, Field(ge=1)]


def _as_in_yaml(value: Any) -> Any:
    """Returns a value with the types of YAML: of NumPy, a tuple or a path."""
    if isinstance(value, Mapping):
        return {key: _as_in_yaml(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_in_yaml(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    # A scalar of NumPy, or its array.
    return value.tolist() if hasattr(value, "tolist") else value


Settings = Annotated[Mapping[str, Any], BeforeValidator(_as_in_yaml)]


def check_output(paths: OutputPaths) -> OutputPaths:
    """Returns the paths of an output directory that exists.

    Raises:
      UsageError: It does not exist.
    """
    if not paths.root.is_dir():
        raise UsageError(
            "output",
            f"{paths.root} does not exist",
            advice="name the directory of the runs with `output=DIR`",
            name="E-output-not-found",
        )
    return paths


def check_model(model: str) -> None:
    """Refuses a path that the model server cannot read."""
    discovery.check_local(model)
    for path in (os.path.abspath(model), os.path.realpath(model)):  # of the link, too
        uris.refuse_pattern("model", path)


def check_count(compared: Sized, most: int) -> None:
    """Refuses fewer than two compared runs, or too many."""
    if not 2 <= len(compared) <= most:
        raise SettingError(
            "compared",
            wording.count(len(compared), "run"),
            f"2 to {most}, such as the id of a run and `latest`",
        )
