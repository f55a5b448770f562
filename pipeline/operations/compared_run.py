"""Finds the settings, predictions and examples of a run to compare."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import yaml

from contracts.errors import UsageError
from contracts.task.definition import TaskConfig
from contracts.verdicts import PUSHED_DESTINATION
from contracts.versions import served_versions
from pipeline.config import recipe, tfx_names
from pipeline.config.paths import OutputPaths
from pipeline.operations.record import (
    LOG_FILE,
    RECORD_FILE,
    RESTORE,
    SETTINGS_FILE,
    RunRecord,
    damage_error,
)
from pipeline.operations.runs import Run, RunList
from report.run_metadata import values


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """A run whose training finished.

    Attributes:
      name: Its id, the name of its record below `runs/`.
      settings: Its recipe with every setting.
      task: The task of the recipe.
      split: The split that decided.
      model_run: Directory of the ModelRun artifact, which has the predictions.
      examples: Directory of the Examples artifact.
    """

    name: str
    settings: dict[str, Any]
    task: TaskConfig
    split: str
    model_run: str
    examples: str


def find_run(paths: OutputPaths, name: str) -> FinishedRun:
    """Finds a run by an id or a directory.

    Args:
      paths: The output directory in which an id is looked up.
      name: An id as for `RunList.find`, the directory of a run's record, or the
        directory of a version that a run pushed.

    Raises:
      UsageError: There is no such run, it did not train a model, or its settings or ML
        Metadata cannot be read.
    """
    directory = Path(name).resolve()
    is_version = served_versions.is_saved_model(str(directory))
    is_record = os.path.lexists(directory / RECORD_FILE)
    if is_version or is_record:
        paths = _output_of(directory)
    runs = RunList(paths, requires_metadata=True)
    if is_version:
        record = _find_pushing_run(runs, directory)
    else:
        record = runs.find(directory.name if is_record else name)
    run = Run(paths, record)
    artifacts = run.outputs.artifacts
    try:
        model_run = artifacts[tfx_names.MODEL_RUN].uri
        examples = artifacts[tfx_names.EXAMPLES].uri
    except KeyError as error:
        why = "its Trainer did not finish"
        advice = f"{run.directory / LOG_FILE} shows why"
        if record.state == "running":
            why, advice = "it is running", "compare it when its Trainer has ended"
        elif record.tfx_run_id and not run.outputs.components:
            why, advice = f"{paths.metadata} does not know it", RESTORE
        raise UsageError(
            "run",
            f"{record.id} has no predictions: {why}",
            advice=advice,
            name="E-runs-not-comparable",
        ) from error
    settings_file = run.directory / SETTINGS_FILE
    try:
        try:
            # Settings that the release of the run did not have get today's defaults.
            config = recipe.load_config(settings_file, is_past=True)
            settings = config.model_dump(mode="json")
        except UsageError:
            settings = yaml.safe_load(settings_file.read_text(encoding="utf-8"))
        task = TaskConfig.model_validate(settings["task"])
        split = settings["evaluator"]["split"]
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
        advice = f"{RESTORE}, or compare other runs"
        raise damage_error(settings_file, error, advice) from error
    return FinishedRun(
        name=record.id,
        settings=settings,
        task=task,
        split=split,
        model_run=model_run,
        examples=examples,
    )


def _output_of(directory: Path) -> OutputPaths:
    for root in directory.parents:
        paths = OutputPaths(root, "")
        if paths.metadata.is_file():
            return paths
    raise UsageError(
        str(directory),
        f"no directory above it has {paths.metadata.name}",
        "a directory below an output directory of runs",
        name="E-run-unknown",
    )


def _find_pushing_run(runs: RunList, version: Path) -> RunRecord:
    pushed = version
    if version.parent.name == served_versions.WITHDRAWN:
        # It was pushed to the parent of the directory of withdrawn versions.
        pushed = version.parents[1] / version.name
    reader = runs.reader
    # The oldest artifact first: a later run may push the same model again.
    for artifact in reader.artifacts(tfx_names.PUSHED_MODEL_TYPE) if reader else ():
        destination = values(artifact).get(PUSHED_DESTINATION)
        if reader and destination and Path(destination).resolve() == pushed:
            execution = reader.producing_execution(artifact)
            record = runs.of_tfx_run(reader.run_id_of(execution))
            if record is not None:
                return record
    raise UsageError(
        str(version),
        "no run pushed it",
        advice="`versions` lists what was pushed",
        name="E-version-unknown",
    )
