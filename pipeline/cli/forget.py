"""The command that removes a person's rows from what runs wrote."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import filesize

from contracts import wording
from contracts.errors import UsageError
from pipeline import exit_status
from pipeline.cli import completion, options
from pipeline.config.invocation import command
from pipeline.config.paths import OutputPaths
from pipeline.console import print_json

if TYPE_CHECKING:
    from pipeline.operations.forgetting import Forgetting


def _split(_: click.Context, __: click.Parameter, text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise UsageError("column", text, "NAME=VALUE", name="E-settings-refused")
    return name, value


@click.command("forget")
@click.option(
    "--column",
    "pair",
    required=True,
    metavar="NAME=VALUE",
    callback=_split,
    help="A column of the Examples or of your files, and the person's value in it.",
)
@click.option(
    "--data",
    metavar="FILE",
    shell_complete=completion.complete_path,
    help="A copy of the rows with the column, if the recipe's data lack them.",
)
@click.option(
    "--samples",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Samples of requests, as of serve --sample-dir. Repeatable.",
)
@click.option("--yes", "delete", is_flag=True, help="Do it; by default, only list.")
@click.option("-v", "--verbose", is_flag=True, help="List each directory and file.")
@options.of_runs
@options.JSON
def forget_command(
    paths: OutputPaths,
    pair: tuple[str, str],
    data: str | None,
    samples: tuple[Path, ...],
    delete: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Remove the rows of a person from what runs wrote, or list what has them.

    Examples, statistics, caches and other outputs are deleted, and the next run creates
    them again. Reports, logs, pushed versions and samples are rewritten. Models that
    were trained on the rows, and the files of the data, are listed and stay. The exit
    status of --yes is 1 if a warning names what is not read or not changed.
    """
    from pipeline.api.releases import forget

    column, value = pair
    found = forget(
        paths.root,
        column=column,
        value=value,
        data=data,
        samples=samples,
        delete=delete,
    )
    if as_json:
        print_json({**dataclasses.asdict(found), "rewritten": [*found.rewritten]})
    else:
        _print(paths, found, delete=delete, verbose=verbose)
    if delete and found.unread:
        sys.exit(exit_status.FAILURE)


def _print(
    paths: OutputPaths, found: Forgetting, *, delete: bool, verbose: bool
) -> None:
    if verbose:
        for path in (*(entry.path for entry in found.deleted), *found.rewritten):
            click.echo(path)
    size = filesize.decimal(sum(entry.size_bytes for entry in found.deleted))
    directories = wording.count(len(found.deleted), "directory", "directories")
    would = "" if delete else "would be "
    click.echo(f"{would}deleted: {directories} that a run creates again, {size}")
    files = wording.count(len(found.rewritten), "file")
    click.echo(f"{would}rewritten without the rows: {files}")
    for model in found.models:
        perhaps = "" if model.is_certain else "perhaps "
        click.echo(f"stays, {perhaps}trained or evaluated on the rows: {model.path}")
    for settings in sorted({m.settings for m in found.models if m.settings}):
        run = command("run", "--config", settings, "--output", paths.root)
        click.echo(f"to train again, after the rows are deleted from the data: {run}")
    for file, count in found.sources.items():
        rows = wording.count(count, "row")
        click.echo(f"warning: {file} has {rows}, which the next run reads", err=True)
    for problem in found.unread:
        click.echo(f"warning: {problem}", err=True)
    if not delete:
        click.echo("--yes does it")
