"""The command that deletes the outputs of old runs."""

from __future__ import annotations

import dataclasses

import click
from rich import filesize
from rich.table import Column

from pipeline.api.arguments import Keep
from pipeline.cli import options
from pipeline.cli.tables import plain_table
from pipeline.config.paths import OutputPaths
from pipeline.console import Console, print_json


@click.command("clean")
@click.option(
    "--keep",
    type=options.allowed(Keep),
    default=3,
    help="How many of the newest runs to keep.",
)
@click.option("--yes", "delete", is_flag=True, help="Delete; by default, only list.")
@click.option("-v", "--verbose", is_flag=True, help="List each directory.")
@options.of_runs
@options.JSON
def clean_command(
    paths: OutputPaths, keep: int, delete: bool, verbose: bool, as_json: bool
) -> None:
    """Delete what no kept run needs, or list it with its size.

    It keeps the newest runs, the run whose model is served, the artifacts that these
    use, and trainings that can be resumed. Pushed versions are never deleted.
    """
    from pipeline.api.releases import clean

    obsolete = clean(paths.root, keep=keep, delete=delete)
    if as_json:
        print_json(list(map(dataclasses.asdict, obsolete)))
        return
    if not obsolete:
        click.echo(f"nothing to delete in {paths.root}")
        return
    if verbose:
        for entry in obsolete:
            click.echo(f"{entry.kind}: {entry.path}")
    groups: dict[tuple[str, str], list[int]] = {}
    for entry in obsolete:
        groups.setdefault((entry.kind, entry.why), []).append(entry.size_bytes)
    table = plain_table(
        "what",
        Column("directories", justify="right"),
        Column("size", justify="right"),
        "why",
    )
    for (kind, why), sizes in groups.items():
        table.add_row(kind, str(len(sizes)), filesize.decimal(sum(sizes)), why)
    Console().print(table)
    freed = filesize.decimal(sum(entry.size_bytes for entry in obsolete))
    click.echo(f"freed {freed}" if delete else f"--yes deletes them and frees {freed}")
