"""Pushed versions: which there are, where they came from, and which is served."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import InstanceOf

from contracts.errors import SettingError
from pipeline.api.arguments import Keep, Version, checked
from pipeline.api.looking import Output, Run, find_output
from pipeline.api.quiet import quiet
from pipeline.api.recipes import Recipe
from pipeline.operations import cleaning, releases
from pipeline.operations import lineage as lineage_lib
from pipeline.operations.cleaning import Obsolete
from pipeline.operations.lineage import Node
from pipeline.operations.releases import PushedVersion

if TYPE_CHECKING:
    from pipeline.operations.forgetting import Forgetting
    from pipeline.operations.releases import Release


@checked
def list_versions(recipe: Recipe) -> list[PushedVersion]:
    """Lists the versions that runs of a recipe pushed, the newest first.

    Args:
      recipe: The recipe, whose `output` has the versions.

    Raises:
      UsageError: The output directory does not exist.
    """
    return releases.list_pushed(find_output(recipe))


@checked
def roll_back(
    recipe: Recipe, version: Version | None = None, *, reason: str = ""
) -> Release:
    """Serves an earlier version, or one that was rolled back before.

    Newer versions are withdrawn: model servers no longer see them, and runs do not push
    their models again.

    Args:
      recipe: The recipe of the versions.
      version: The version to serve; None for the one before the served one.
      reason: Why; it is recorded.

    Returns:
      The record, with the versions that were withdrawn.

    Raises:
      UsageError: There is no such version, it is incomplete, or it is served already.
    """
    return releases.roll_back(find_output(recipe).pushed, version, reason)


@checked
def override(run: InstanceOf[Run], *, reason: str) -> Release:
    """Pushes the model of a run that the gate refused.

    A model that the serving check refused is never pushed.

    Args:
      run: The run.
      reason: Why; it is recorded with the user's name.

    Returns:
      The record, with the version that was pushed.

    Raises:
      UsageError: The reason is empty, the run has no model that only the gate refused,
        or another run uses the output directory.
    """
    check_reason(reason)
    from pipeline.local.run import hold_output
    from pipeline.operations import override as override_lib

    # Before TFX is imported; of another object, which keeps what it has read.
    override_lib.require_refused(Run(run.paths, run.record))
    with quiet(), hold_output(run.paths, f"override {run.id}"):
        return override_lib.override(run, reason)


def check_reason(reason: str) -> None:
    """Refuses an empty reason of an override."""
    if not reason.strip():
        raise SettingError(
            "reason", "empty", advice="state why the model is pushed anyway"
        )


@checked
def lineage(model: Run | str | Path, output: Output = None) -> Node:
    """Returns where a model came from: data, code, encoder, settings, libraries.

    Args:
      model: A run that pushed a model; or a pushed version, its directory, or a Model
        artifact: its directory or its id in ML Metadata.
      output: The output directory, or the recipe, of the model; None is that of the
        run, or of the sample.

    Raises:
      UsageError: The run pushed no model, or ML Metadata does not know the model.
    """
    if not isinstance(model, Run):
        return lineage_lib.trace(find_output(output), str(model))
    return lineage_lib.trace(model.paths, str(model.require_pushed()))


@checked
def clean(
    output: Output = None, *, keep: Keep = 3, delete: bool = False
) -> list[Obsolete]:
    """Finds what no kept run, served version or resumable training needs.

    Pushed versions are never deleted.

    Args:
      output: The output directory, or the recipe of the runs; None is that of the
        sample.
      keep: How many of the newest runs to keep, 1 or more.
      delete: Whether to delete it; otherwise it is only listed.

    Raises:
      UsageError: Another run uses the output directory.
    """
    from pipeline.local.run import hold_output

    paths = find_output(output)
    # A run that starts meanwhile could use what is about to be deleted.
    with hold_output(paths, "clean") if delete else contextlib.nullcontext():
        obsolete = cleaning.plan(paths, keep)
        if delete:
            cleaning.delete(paths, obsolete)
    return obsolete


@checked
def forget(
    output: Output = None,
    *,
    column: str,
    value: str,
    data: str | Path | None = None,
    samples: Sequence[str | Path] = (),
    delete: bool = False,
) -> Forgetting:
    """Finds a person's rows below an output directory, and removes them.

    Models that were trained on them are listed, and stay. So do the files of the data.

    Args:
      output: The output directory, or the recipe of the runs; None is that of the
        sample.
      column: A column of the data, which need not be one that the recipe names.
      value: The person's value in it.
      data: A file or directory that has the rows with the column, if the recipe's data
        do not.
      samples: Directories with samples of requests, as of `serve --sample-dir`.
      delete: Whether to remove them; otherwise they are only listed.

    Raises:
      UsageError: The value is empty, no row has it, or another run uses the output
        directory.
    """
    from pipeline.local.run import hold_output

    paths = find_output(output)
    lock = hold_output(paths, "forget") if delete else contextlib.nullcontext()
    with quiet(), lock:
        from pipeline.operations import forgetting  # with TensorFlow, for the records

        found = forgetting.plan(
            paths,
            column,
            value,
            data=None if data is None else str(data),
            samples=[Path(directory) for directory in samples],
        )
        if delete:
            forgetting.carry_out(paths, found)
    return found
