"""The executor of Champion."""

from __future__ import annotations

import os
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils

from components import versions
from components.version_driver import VERSION_KEY

CANDIDATE_KEY = "candidate"
DIRECTORY_KEY = "directory"
MODEL_KEY = "model"
# Where the champion is served from; TFX's Pusher calls it so on a pushed model.
DESTINATION_PROPERTY = "pushed_destination"


class Executor(base_executor.BaseExecutor):
    """Copies the champion into its artifact."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Copies the champion, so that it can be compared even once it is deleted.

        Args:
          input_dict: `candidate`.
          output_dict: `model`.
          exec_properties: `directory` and, from the driver, `version`.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        version = exec_properties.get(VERSION_KEY)
        if version is None:
            version = find_version(input_dict, exec_properties)
        if not version:
            return
        source = os.path.join(exec_properties[DIRECTORY_KEY], version)
        champion = artifact_utils.get_single_instance(output_dict[MODEL_KEY])
        io_utils.copy_dir(source, path_utils.serving_model_dir(champion.uri))
        champion.set_string_custom_property(DESTINATION_PROPERTY, source)


def find_version(
    input_dict: dict[str, list[types.Artifact]], exec_properties: dict[str, Any]
) -> str:
    """Returns the champion's version; empty where there is none.

    The candidate is no champion to itself: an unchanged pipeline that runs again is
    compared with what it was compared with before.
    """
    candidate = artifact_utils.get_single_instance(input_dict[CANDIDATE_KEY])
    model = path_utils.serving_model_path(
        candidate.uri, path_utils.is_old_model_artifact(candidate)
    )
    version = versions.newest_other_version(exec_properties[DIRECTORY_KEY], model)
    return "" if version is None else str(version)
