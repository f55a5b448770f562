"""The driver of Champion: finds the version before the cache is asked."""

from __future__ import annotations

from tfx.orchestration.portable import data_types

from components.champion import executor
from components.version_driver import VersionDriver


class Driver(VersionDriver):
    """Puts the champion's version into the cache key."""

    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the champion's version; empty where there is none."""
        return executor.find_version(
            execution_info.input_dict, execution_info.exec_properties
        )
