"""The executors of Champion and ChampionCheck."""

from __future__ import annotations

import json
import os
import pkgutil
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import path_utils

from components import versions
from components.artifacts import NOT_COMPARED, PUSHED_DESTINATION
from components.version_driver import VERSION_KEY

CANDIDATE_KEY = "candidate"
MODEL_KEY = "model"
DIRECTORY_KEY = "directory"
FIND_DIFFERENCE_KEY = "find_difference"
EXPECTED_KEY = "expected"
INCOMPATIBLE_KEY = "incompatible"

# What happens if the champion is of another task.
IGNORE = "ignore"
REFUSE = "refuse"


class ChampionError(Exception):
    """A champion that the candidate cannot be compared with, and must be."""


class Executor(base_executor.BaseExecutor):
    """Copies the champion into its artifact."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Copies the champion, so that it can be compared even once it is deleted.

        Args:
          input_dict: `candidate`.
          output_dict: `model`.
          exec_properties: `directory`, `find_difference`, `expected`, `incompatible`
            and, from the driver, `version`.

        Raises:
          ChampionError: The champion is of another task, and `incompatible` is
            `refuse`.
          VersionError: The champion's files are damaged.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        version = exec_properties.get(VERSION_KEY)
        if version is None:
            version = find_version(input_dict, exec_properties)
        if not version:
            return
        source = os.path.join(exec_properties[DIRECTORY_KEY], version)
        champion = artifact_utils.get_single_instance(output_dict[MODEL_KEY])
        difference = check(source, exec_properties)
        if difference:
            champion.set_string_custom_property(NOT_COMPARED, difference)
            return
        versions.copy(source, path_utils.serving_model_dir(champion.uri))
        champion.set_string_custom_property(PUSHED_DESTINATION, source)


class CheckExecutor(base_executor.BaseExecutor):
    """Compares the newest version's task with the one to train, before training."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Checks the newest version.

        Args:
          input_dict: Nothing.
          output_dict: Nothing.
          exec_properties: Those of `Executor`.

        Raises:
          ChampionError: It is of another task.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        version = find_newest(exec_properties)
        if version:
            check(
                os.path.join(exec_properties[DIRECTORY_KEY], version), exec_properties
            )


def check(champion: str, exec_properties: dict[str, Any]) -> str:
    """Returns why a candidate is not compared with a champion; empty if it is.

    Args:
      champion: Directory of a version.
      exec_properties: `find_difference`, `expected` and `incompatible`.

    Raises:
      ChampionError: There is a reason, and `incompatible` is `refuse`.
    """
    find_difference = pkgutil.resolve_name(exec_properties[FIND_DIFFERENCE_KEY])
    difference = find_difference(champion, json.loads(exec_properties[EXPECTED_KEY]))
    if not difference:
        return ""
    reason = f"not compared with the champion {champion}, {difference}"
    if exec_properties[INCOMPATIBLE_KEY] == REFUSE:
        raise ChampionError(
            f"{reason}. Give the recipe another name, or push without a comparison "
            "with --set evaluator.incompatible_champion=ignore"
        )
    return reason


def find_newest(exec_properties: dict[str, Any]) -> str:
    """Returns the newest version; empty where there is none."""
    newest = next(versions.list_versions(exec_properties[DIRECTORY_KEY]), None)
    return "" if newest is None else str(newest)


def find_version(
    input_dict: dict[str, list[types.Artifact]], exec_properties: dict[str, Any]
) -> str:
    """Returns the champion's version; empty where there is none.

    The candidate is no champion to itself: an unchanged pipeline that runs again is
    compared with what it was compared with before.
    """
    candidate = artifact_utils.get_single_instance(input_dict[CANDIDATE_KEY])
    model = path_utils.serving_model_path(
        candidate.uri, path_utils.is_old_model_artifact(candidate)
    )
    version = versions.newest_other_version(exec_properties[DIRECTORY_KEY], model)
    return "" if version is None else str(version)
