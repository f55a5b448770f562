"""The driver of components that work on one version of a pushed model."""

from __future__ import annotations

import abc

from tfx.dsl.components.base import base_driver
from tfx.orchestration import metadata
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

VERSION_KEY = "version"


class VersionDriver(base_driver.BaseDriver, portable_driver.BaseDriver):
    """Finds the version before the cache is asked, so that it is in the cache's key.

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
        """Returns the version as an execution property, `version`.

        Args:
          execution_info: Inputs and execution properties of the component.
        """
        output = driver_output_pb2.DriverOutput()
        output.exec_properties[VERSION_KEY].string_value = self.find_version(
            execution_info
        )
        return output

    @abc.abstractmethod
    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the version; empty where there is none to work on."""
