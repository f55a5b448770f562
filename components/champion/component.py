"""Champion and ChampionCheck: the model in production, on every orchestrator."""

import json

from tfx import types
from tfx import v1 as tfx
from tfx.orchestration.portable import data_types
from tfx.utils import path_utils

from components.artifacts import NOT_COMPARED
from components.version_driver import VersionDriver
from contracts.errors import UsageError
from contracts.storage import uris
from contracts.verdicts import PUSHED_DESTINATION
from contracts.versions import exported_model, served_versions


class Driver(VersionDriver):
    """Adds the champion's version to the cache key."""

    def find_version(self, execution_info: data_types.ExecutionInfo) -> str:
        """Returns the champion's version; empty without a champion."""
        candidates = execution_info.input_dict.get("candidate", [])
        return find_version(execution_info.exec_properties["directory"], *candidates)


def find_version(directory: str, candidate: types.Artifact | None = None) -> str:
    """Returns the newest version other than the candidate; empty without a champion.

    A pushed candidate is not its own champion: if an unchanged pipeline runs again, it
    makes the same comparison.

    Args:
      directory: Contains the pushed versions.
      candidate: A ModelRun artifact; None excludes no version.
    """
    excluded = (
        "" if candidate is None else exported_model.read_digest(candidate.uri).identity
    )
    return served_versions.find_newest(directory, excluded=excluded)


@tfx.dsl.components.component
def Champion(
    candidate: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.ModelRun],
    model: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Model],
    directory: tfx.dsl.components.Parameter[str],
    expected: tfx.dsl.components.Parameter[str],
    incompatible: tfx.dsl.components.Parameter[str] = "ignore",
    version: tfx.dsl.components.Parameter[str] = None,
) -> None:
    """Copies the newest pushed version that is not the candidate itself.

    docs/decisions/champion.md has the reasons for not using TFX's Resolver. An
    orchestrator without drivers must not cache this component, because a new version
    changes none of its inputs.

    Args:
      candidate: The Trainer's `ModelRun` of the model to compare, with its digests.
      model: A copy of the champion, so that it can be evaluated even after it was
        deleted; empty if it is missing or incompatible.
      directory: Contains the pushed versions.
      expected: JSON: the candidate's `contracts.versions.exported_model.describe_task`.
      incompatible: What to do if the tasks differ: `ignore` leaves `model` empty,
        `refuse` fails.
      version: Set by the driver, empty without a champion; None if no driver runs.

    Raises:
      UsageError: The tasks differ and `incompatible` is `refuse`.
      VersionError: The champion's files are damaged.
    """
    if version is None:
        version = find_version(directory, candidate)
    if not version:
        return
    champion = uris.join(directory, version)
    difference = exported_model.find_task_difference(champion, json.loads(expected))
    if difference and incompatible == "refuse":
        raise _refusal(champion, difference)
    if difference:
        reason = f"not compared with the champion {champion}: {difference}"
        model.set_string_custom_property(NOT_COMPARED, reason)
        return
    served_versions.copy(champion, path_utils.serving_model_dir(model.uri))
    model.set_string_custom_property(PUSHED_DESTINATION, champion)


@tfx.dsl.components.component
def ChampionCheck(
    directory: tfx.dsl.components.Parameter[str],
    expected: tfx.dsl.components.Parameter[str],
    version: tfx.dsl.components.Parameter[str] = None,
) -> None:
    """Fails before training if the newest version was trained for another task.

    Champion needs the candidate and therefore runs after training. The parameters are
    those of Champion. An orchestrator without drivers must not cache this component
    either.

    Raises:
      UsageError: The tasks differ.
    """
    if version is None:
        version = find_version(directory)
    if version:
        champion = uris.join(directory, version)
        difference = exported_model.find_task_difference(champion, json.loads(expected))
        if difference:
            raise _refusal(champion, difference)


def _refusal(champion: str, difference: str) -> UsageError:
    return UsageError(
        "evaluator.incompatible_champion",
        f"refuse, and the champion {champion} has another task: {difference}",
        advice="give the recipe another name, or set evaluator.incompatible_champion "
        "to ignore, which pushes without a comparison",
        name="E-runs-not-comparable",
    )


Champion.DRIVER_CLASS = Driver
ChampionCheck.DRIVER_CLASS = Driver
