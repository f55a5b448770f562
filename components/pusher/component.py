"""AtomicPusher: TFX's Pusher for directories that a model server watches."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx import v1 as tfx
from tfx.components.pusher import executor
from tfx.dsl.components.base import executor_spec
from tfx.orchestration.portable import data_types
from tfx.proto import pusher_pb2
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import proto_utils

from components.version_driver import VERSION_KEY, VersionDriver
from contracts.storage import files, uris
from contracts.verdicts import COMMITS, WITHDRAWN_VERSION
from contracts.versions import served_versions

COMMITS_FILE = "commits_file"  # a key of `custom_config`

logger = logging.getLogger(__name__)


class Executor(executor.Executor):
    """Pushes a blessed model, with the files of its blessing and the run's commits."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Pushes the model if it is blessed, as the version that the driver chose.

        A model that was rolled back is not pushed again.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        pushed = artifact_utils.get_single_instance(
            output_dict[standard_component_specs.PUSHED_MODEL_KEY]
        )
        config = json.loads(exec_properties.get("custom_config") or "null") or {}
        file = config.get(COMMITS_FILE)
        commits = files.read_record(file) if file else None
        _set_commits(pushed, commits)
        if not self.CheckBlessing(input_dict):
            self._MarkNotPushed(pushed)
            return
        model, directory = self.GetModelPath(input_dict), _directory(exec_properties)
        withdrawn = served_versions.find_withdrawn(directory, model)
        if withdrawn:
            logger.warning("not pushed: version %s was rolled back", withdrawn)
            self._MarkNotPushed(pushed)
            pushed.set_string_custom_property(WITHDRAWN_VERSION, withdrawn)
            return
        version = exec_properties.get(VERSION_KEY) or served_versions.choose_version(
            directory, model
        )
        blessings = input_dict.get(standard_component_specs.INFRA_BLESSING_KEY)
        blessing = blessings and artifact_utils.get_single_instance(blessings).uri
        served_versions.push(
            model, directory, version, blessing=blessing or None, commits=commits
        )
        destination = uris.join(directory, version)
        # A copy of the model that is served already keeps the commits of its push.
        _set_commits(pushed, served_versions.read_commits(destination))
        self._MarkPushed(pushed, destination, version)


class Driver(VersionDriver):
    """Adds the version to push to the cache key.

    This is the newest version if it is a copy of the candidate, and a new one
    otherwise. So Pusher runs again if the directory no longer has the version.
    """

    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the version to push; empty if the model may not be pushed."""
        # TFX gives a driver no executor. The two methods need no context of a run.
        pusher = Executor()
        if not pusher.CheckBlessing(execution_info.input_dict):
            return ""
        directory = _directory(execution_info.exec_properties)
        model = pusher.GetModelPath(execution_info.input_dict)
        if served_versions.find_withdrawn(directory, model):
            return ""
        return served_versions.choose_version(directory, model)


class AtomicPusher(tfx.components.Pusher):
    """Pushes to a filesystem atomically; TFX's Pusher copies into the live directory.

    Inputs, outputs and parameters are those of `tfx.components.Pusher`. A version
    appears completely or not at all, and earlier versions stay. `custom_config` may
    have the path of a file with the run's commits as `COMMITS_FILE`.
    """

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)
    DRIVER_CLASS = Driver


def _set_commits(pushed: types.Artifact, commits: Mapping[str, Any] | None) -> None:
    pushed.set_string_custom_property(COMMITS, json.dumps(commits) if commits else "")


def _directory(exec_properties: dict[str, Any]) -> str:
    """Returns the directory that contains the versions."""
    destination = proto_utils.json_to_proto(
        exec_properties[standard_component_specs.PUSH_DESTINATION_KEY],
        pusher_pb2.PushDestination(),
    )
    return destination.filesystem.base_directory
