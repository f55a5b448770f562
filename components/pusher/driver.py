"""The driver of AtomicPusher: chooses the version before the cache is asked."""

from __future__ import annotations

from tfx.dsl.components.base import base_driver
from tfx.orchestration import metadata
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

from components import versions
from components.pusher import executor


class Driver(base_driver.BaseDriver, portable_driver.BaseDriver):
    """Takes the live version where it is the candidate, and a new one elsewhere.

    Two base classes, as TFX's own driver of ExampleGen has: components are checked
    against the first, and launchers call the second.
    """

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        """Keeps the connection to ML Metadata."""
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    def run(
        self, execution_info: data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        """Returns the version as an execution property.

        Args:
          execution_info: Inputs and execution properties of the Pusher.

        Returns:
          `version`: empty where nothing is to be pushed.
        """
        output = driver_output_pb2.DriverOutput()
        output.exec_properties[executor.VERSION_KEY].string_value = self._version(
            execution_info
        )
        return output

    def _version(self, execution_info: data_types.ExecutionInfo) -> str:
        pusher = executor.Executor()
        if not pusher.CheckBlessing(execution_info.input_dict):
            return ""
        directory = executor.base_directory(execution_info.exec_properties)
        model = pusher.GetModelPath(execution_info.input_dict)
        return str(versions.choose_version(directory, model))
