"""The driver of AtomicPusher: chooses the version before the cache is asked."""

from __future__ import annotations

from tfx.orchestration.portable import data_types

from components import versions
from components.pusher import executor
from components.version_driver import VersionDriver


class Driver(VersionDriver):
    """Takes the live version where it is the candidate, and a new one elsewhere.

    So Pusher runs again where the directory no longer holds what was pushed.
    """

    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the version to push as; empty where nothing is to be pushed."""
        pusher = executor.Executor()
        if not pusher.CheckBlessing(execution_info.input_dict):
            return ""
        directory = executor.base_directory(execution_info.exec_properties)
        model = pusher.GetModelPath(execution_info.input_dict)
        return str(versions.choose_version(directory, model))
