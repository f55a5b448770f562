"""The executor of AtomicPusher."""

from __future__ import annotations

import os
from typing import Any

from tfx import types
from tfx.components.pusher import executor
from tfx.proto import pusher_pb2
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import proto_utils

from components import versions
from components.version_driver import VERSION_KEY


class Executor(executor.Executor):
    """Pushes a blessed model with `versions.push`."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Pushes the model if it is blessed.

        Args:
          input_dict: `model` and its blessings.
          output_dict: `pushed_model`, with the destination among its properties.
          exec_properties: `push_destination` and, from the driver, `version`.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        pushed = artifact_utils.get_single_instance(
            output_dict[standard_component_specs.PUSHED_MODEL_KEY]
        )
        if not self.CheckBlessing(input_dict):
            self._MarkNotPushed(pushed)
            return
        model = self.GetModelPath(input_dict)
        directory = base_directory(exec_properties)
        version = exec_properties.get(VERSION_KEY) or str(
            versions.choose_version(directory, model)
        )
        versions.push(model, directory, int(version))
        destination = os.path.join(directory, version)
        self._MarkPushed(pushed, destination, version)


def base_directory(exec_properties: dict[str, Any]) -> str:
    """Returns the directory that contains the versions."""
    destination = proto_utils.json_to_proto(
        exec_properties[standard_component_specs.PUSH_DESTINATION_KEY],
        pusher_pb2.PushDestination(),
    )
    return destination.filesystem.base_directory
