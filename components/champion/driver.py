"""The driver of Champion and ChampionCheck."""

from __future__ import annotations

from tfx import types
from tfx.orchestration.portable import data_types
from tfx.utils import path_utils

from components import versions
from components.version_driver import VersionDriver


class Driver(VersionDriver):
    """Adds the champion's version to the cache key."""

    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the champion's version; empty if there is none."""
        candidates = execution_info.input_dict.get("candidate", [])
        return find_version(execution_info.exec_properties["directory"], *candidates)


def find_version(directory: str, candidate: types.Artifact | None = None) -> str:
    """Returns the newest version other than the candidate; empty if there is none.

    A pushed candidate is not its own champion: an unchanged pipeline that runs again
    makes the same comparison again.

    Args:
      directory: Contains the pushed versions.
      candidate: A Model artifact; None excludes no version.
    """
    if candidate is None:
        return versions.find_newest(directory)
    model = path_utils.serving_model_path(candidate.uri)
    return versions.find_newest(directory, excluded_model=model)
