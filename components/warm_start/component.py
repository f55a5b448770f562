"""WarmStart: the model that was pushed last, as the Trainer's `base_model`."""

import json

from tfx import v1 as tfx
from tfx.utils import path_utils

from contracts.errors import UsageError
from contracts.storage import files, uris
from contracts.versions import served_versions
from modules.training import warm_start


@tfx.dsl.components.component
def WarmStart(
    examples: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Examples],
    base_model: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Model],
    directory: tfx.dsl.components.Parameter[str],
    expected: tfx.dsl.components.Parameter[str],
) -> None:
    """Copies the newest pushed version, once per set of Examples.

    Every run pushes its model, so the newest version changes with each run. This
    component has no driver that would notice: for the same Examples the cache returns
    the copy of the first run, and an unchanged pipeline does not train again. It has no
    fingerprint of its code for the same reason: after an edit, training would start
    from a model that was already trained on the same data.

    Args:
      examples: Not read. New Examples cause a new search for the newest version.
      base_model: A copy of the newest version, with its directory in `CHAMPION_FILE`;
        empty before the first push.
      directory: Contains the pushed versions.
      expected: JSON: the `modules.training.warm_start.describe` of the model to train.

    Raises:
      UsageError: Training cannot start from the newest version.
      VersionError: The files of the newest version are damaged.
    """
    del examples
    version = served_versions.find_newest(directory)
    if not version:
        return
    champion = uris.join(directory, version)
    incompatibility = warm_start.find_incompatibility(champion, json.loads(expected))
    if incompatibility:
        raise UsageError(
            "trainer.warm_start",
            f"champion, but training cannot start from {champion}: {incompatibility}",
            advice="set trainer.warm_start to encoder, which starts from the "
            "pre-trained one",
            name="E-runs-not-comparable",
        )
    served_versions.copy(champion, path_utils.serving_model_dir(base_model.uri))
    path = uris.join(base_model.uri, warm_start.CHAMPION_FILE)
    files.write_record(path, {"directory": champion})
