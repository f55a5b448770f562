"""WarmStart: the model that was pushed last, as the Trainer's `base_model`."""

import json
import pkgutil

from tfx import v1 as tfx
from tfx.utils import io_utils, path_utils

from modules import served_versions, uris


class WarmStartError(Exception):
    """Training cannot start from the pushed model."""


@tfx.dsl.components.component
def WarmStart(
    examples: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Examples],
    base_model: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Model],
    directory: tfx.dsl.components.Parameter[str],
    find_incompatibility: tfx.dsl.components.Parameter[str],
    expected: tfx.dsl.components.Parameter[str],
    record: tfx.dsl.components.Parameter[str],
) -> None:
    """Copies the newest pushed version, once per set of Examples.

    Every run pushes what it trained, so the newest version changes with each run. This
    component has no driver that would notice: for the same Examples the cache returns
    the copy of the first run, and an unchanged pipeline does not train again. It has no
    fingerprint of its code for the same reason: after an edit, a model would start from
    one that was already trained on its data.

    Args:
      examples: Not read. New Examples cause a new lookup of the newest version.
      base_model: A copy of the newest version; empty if there is none.
      directory: Contains the pushed versions.
      find_incompatibility: Import path of a function that takes a model's directory and
        `expected`, and returns why training cannot start from the model; empty if it
        can.
      expected: JSON that describes the model to train.
      record: Name of a JSON file that is written beside the model. Its key `directory`
        is the directory of the version.

    Raises:
      WarmStartError: Training cannot start from the newest version.
      VersionError: The files of the newest version are damaged.
    """
    del examples
    version = served_versions.find_newest(directory)
    if not version:
        return
    champion = uris.join(directory, version)
    incompatibility = pkgutil.resolve_name(find_incompatibility)(
        champion, json.loads(expected)
    )
    if incompatibility:
        raise WarmStartError(incompatibility)
    served_versions.copy(champion, path_utils.serving_model_dir(base_model.uri))
    path = uris.join(base_model.uri, record)
    io_utils.write_string_file(path, json.dumps({"directory": champion}))
