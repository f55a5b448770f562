"""WarmStart: the model that was pushed last, as the Trainer's `base_model`."""

import json
import os
import pkgutil

from tfx import v1 as tfx
from tfx.utils import io_utils, path_utils

from components import versions


class WarmStartError(Exception):
    """A model that training cannot start from."""


@tfx.dsl.components.component
def WarmStart(
    examples: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Examples],
    base_model: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Model],
    directory: tfx.dsl.components.Parameter[str],
    find_misfit: tfx.dsl.components.Parameter[str],
    expected: tfx.dsl.components.Parameter[str],
    record: tfx.dsl.components.Parameter[str],
) -> None:
    """Copies the newest version, once for each data.

    What is trained is pushed, so the newest version is another one after each run.
    This component has no driver that would see it: the cache gives back what the first
    run on the same Examples found, and an unchanged pipeline does not train again. Nor
    is there a fingerprint of this code among the parameters: an edit must not make a
    model start from one that has seen its data.

    Args:
      examples: New ones have the newest version looked up again; they are not read.
      base_model: A copy of the newest version, and nothing where there is none yet.
      directory: Holds the versions that were pushed.
      find_misfit: Import path of a function from a model's directory and `expected` to
        the reason why training cannot start from that model; empty where it can.
      expected: JSON of what the model must be.
      record: Name of the file, beside the model, that tells a Trainer where the model
        was pushed, as JSON: `directory`.

    Raises:
      WarmStartError: Training cannot start from the newest version.
    """
    del examples
    version = next(versions.list_versions(directory), None)
    if version is None:
        return
    champion = os.path.join(directory, str(version))
    misfit = pkgutil.resolve_name(find_misfit)(champion, json.loads(expected))
    if misfit:
        raise WarmStartError(misfit)
    versions.copy(champion, path_utils.serving_model_dir(base_model.uri))
    path = os.path.join(base_model.uri, record)
    io_utils.write_string_file(path, json.dumps({"directory": champion}))
