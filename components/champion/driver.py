"""The drivers of Champion and ChampionCheck: find the version before the cache."""

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


class CheckDriver(VersionDriver):
    """Puts the newest version into the cache key."""

    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the newest version; empty where there is none."""
        return executor.find_newest(execution_info.exec_properties)
