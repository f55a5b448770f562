"""The commands about pushed models: versions, rollback and override."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import filesize
from rich.table import Column, Table
from rich.text import Text

from contracts.errors import UsageError
from modules import environment
from pipeline.api.arguments import Version, check_output
from pipeline.cli import options
from pipeline.cli.metric_tables import one_value
from pipeline.cli.tables import plain_table, short_id
from pipeline.config.invocation import command
from pipeline.config.paths import OutputPaths
from pipeline.console import Console, print_json
from report.formatting import local_time

if TYPE_CHECKING:
    from pipeline.operations.releases import PushedVersion, Release

_STYLES = {
    "served": "green",
    "withdrawn": "yellow",
    "incomplete": "red",
    "earlier": "default",
}


@click.command("versions")
@options.of_runs
@options.JSON
def versions_command(paths: OutputPaths, as_json: bool) -> None:
    """List the pushed versions of a model, and which one is served."""
    from pipeline.operations.releases import list_pushed, list_releases, recipe_names

    names = [paths.name] if paths.name else recipe_names(paths)
    pushed = {name: list_pushed(OutputPaths(paths.root, name)) for name in names}
    if as_json:
        content = {
            name: [
                {
                    **dataclasses.asdict(version),
                    "release": version.release
                    and version.release.model_dump(mode="json"),
                }
                for version in versions
            ]
            for name, versions in pushed.items()
        }
        print_json(content)
        return
    if not any(pushed.values()):
        click.echo(f"no version was pushed from {paths.root}")
    for name, versions in pushed.items():
        if not versions:
            continue
        click.echo(f"{name}: {OutputPaths(paths.root, name).pushed}")
        console = Console()
        console.print(_table(versions))
        lines = []
        for version in versions:
            release = version.release
            if version.problem:
                lines.append(f"{version.directory} is incomplete: {version.problem}")
            if release is not None and release.confirmed:
                what = "overridden" if release.action == "override" else "rolled back"
                reason = f": {release.reason}" if release.reason else ""
                lines.append(f"{version.version} {what} {_author(release)}{reason}")
        served = next((v.version for v in versions if v.state == "served"), None)
        for release in list_releases(OutputPaths(paths.root, name).pushed):
            if release.confirmed:
                continue
            what, again = f"rollback to {release.version}", f"{release.version}"
            if release.action == "override":
                what = f"override of run {release.run}"
                again = f"{release.run} --reason TEXT"
            advice = f"`{release.action} {again}` completes it"
            if release.action == "rollback" and not release.can_complete(served):
                advice = "another version was pushed since, so it is obsolete"
            lines.append(f"{what} {_author(release)}, is not complete: {advice}")
        for line in lines:
            console.print(line, highlight=False, soft_wrap=True)


@click.command("rollback")
@click.argument("version", required=False, type=options.allowed(Version))
@click.option("--reason", default="", show_default=False, help="Why; it is recorded.")
@options.RUNS_OUTPUT
@options.RUNS_CONFIG
def rollback_command(
    version: int | None, reason: str, output: str | None, config_file: Path | None
) -> None:
    """Serve VERSION again: an earlier one, or one that was rolled back.

    The default is the version before the served one. Newer versions are withdrawn:
    model servers no longer see them, and runs do not push their models again.
    `rollback` to a withdrawn version undoes it.
    """
    paths = check_output(options.output_paths(config_file, output))
    from pipeline.operations.releases import recipe_names, roll_back

    if not paths.name:
        names = recipe_names(paths)
        if len(names) > 1:
            raise UsageError(
                str(paths.root),
                "several recipes push from it",
                advice="name one with `config_file=FILE`",
                name="E-output-not-found",
            )
        if not names:
            raise UsageError(
                str(paths.root),
                "no version was pushed from it",
                advice="run a recipe first, or name another output with `output=DIR`",
                name="E-version-unknown",
            )
        paths = OutputPaths(paths.root, names[0])
    release = roll_back(paths.pushed, version, reason)
    withdrawn = ", ".join(map(str, release.withdrawn)) or "none"
    click.echo(f"version {release.version} is served; withdrawn: {withdrawn}")
    if release.previous is not None:
        undo = ["rollback", release.previous, "--output", paths.root]
        if config_file is not None:
            undo += ["--config", config_file]
        click.echo(f"undo with: {command(*undo)}")


@click.command("override")
@click.argument("run")
@click.option("--reason", required=True, help="Why; it is recorded.")
@options.of_runs
def override_command(paths: OutputPaths, run: str, reason: str) -> None:
    """Push the model of RUN although the gate refused it.

    The verdict records who did it, when and why. A model that the serving check refused
    is never pushed.
    """
    from pipeline.api import releases
    from pipeline.api.looking import Run
    from pipeline.operations.runs import RunList

    releases.check_reason(reason)
    refused = RunList(paths, requires_metadata=True).find(run)
    environment.set_up(quiet=True)
    with Console(stderr=True).status("pushing"):
        release = releases.override(Run(refused.paths, refused.record), reason=reason)
    click.echo(f"pushed {refused.paths.pushed / str(release.version)}")
    click.echo(f"recorded: {release.by}, {local_time(release.time)}: {release.reason}")


def _author(release: Release) -> str:
    return f"by {release.by}, {local_time(release.time)}"


def _table(versions: list[PushedVersion]) -> Table:
    table = plain_table(
        Column("version", no_wrap=True),
        Column("state", no_wrap=True),
        Column("run", no_wrap=True),
        Column("metric"),
        Column("size", no_wrap=True, justify="right"),
    )
    for version in versions:
        table.add_row(
            str(version.version),
            Text(version.state, _STYLES[version.state]),
            short_id(version.run or "unknown"),
            one_value(version.metric, version.value),
            filesize.decimal(version.size_bytes),
        )
    return table
