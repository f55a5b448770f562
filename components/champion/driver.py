"""The driver of Champion: finds the version before the cache is asked."""

from __future__ import annotations

from tfx.dsl.components.base import base_driver
from tfx.orchestration import metadata
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

from components.champion import executor


class Driver(base_driver.BaseDriver, portable_driver.BaseDriver):
    """Puts the champion's version into the cache key.

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
          execution_info: Inputs and execution properties of Champion.

        Returns:
          `version`: empty where there is no champion.
        """
        output = driver_output_pb2.DriverOutput()
        output.exec_properties[
            executor.VERSION_KEY
        ].string_value = executor.find_version(
            execution_info.input_dict, execution_info.exec_properties
        )
        return output
