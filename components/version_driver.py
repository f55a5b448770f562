"""The base class of drivers that resolve a version of the pushed model."""

from __future__ import annotations

import abc

from tfx.dsl.components.base import base_driver
from tfx.orchestration import metadata
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

VERSION_KEY = "version"


class VersionDriver(base_driver.BaseDriver, portable_driver.BaseDriver):
    """Resolves the version before the cache lookup, as a part of the cache key.

    It has two base classes, like TFX's driver of ExampleGen: TFX validates component
    classes against the first, and its launchers call the second.
    """

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    def run(
        self, execution_info: data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        """Returns the version as the execution property `version`."""
        output = driver_output_pb2.DriverOutput()
        version = self.find_version(execution_info)
        output.exec_properties[VERSION_KEY].string_value = version
        return output

    @abc.abstractmethod
    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the version; empty without a version."""
