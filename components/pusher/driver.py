"""The driver of AtomicPusher."""

from __future__ import annotations

from tfx.orchestration.portable import data_types

from components import versions
from components.pusher import executor
from components.version_driver import VersionDriver


class Driver(VersionDriver):
    """Adds the version to push to the cache key.

    This is the live version if it is the candidate, else a new one. Pusher therefore
    runs again if the directory no longer contains what was pushed.
    """

    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the version to push; empty if the model is not blessed."""
        pusher = executor.Executor()
        if not pusher.CheckBlessing(execution_info.input_dict):
            return ""
        directory = executor.base_directory(execution_info.exec_properties)
        model = pusher.GetModelPath(execution_info.input_dict)
        return str(versions.choose_version(directory, model))
