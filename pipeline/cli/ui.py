"""The command that serves the web view of runs."""

from __future__ import annotations

from pathlib import Path

import click

from contracts.errors import UsageError
from pipeline.api.arguments import Port
from pipeline.cli import options
from pipeline.cli.serve import check_host
from pipeline.config.paths import DEFAULT_OUTPUT, OutputPaths


@click.command("ui")
@options.output_option(
    f"Output directory of runs. Repeatable. Default: those below {DEFAULT_OUTPUT}/.",
    "outputs",
    type=click.Path(path_type=Path),
    multiple=True,
)
@options.HOST
@options.ALLOWED_HOSTS
@click.option(
    "--port",
    type=options.allowed(Port),
    default=8600,
    show_default=True,
    help="Port. 0 picks a free one.",
)
def ui_command(
    outputs: tuple[Path, ...], host: str, allowed_hosts: tuple[str, ...], port: int
) -> None:
    """Show the runs of output directories in a browser.

    It has a table of runs with their reports, a common plot of learning curves, the
    comparison of runs, and the progress of running ones. It changes no file.
    """
    directories = [path.absolute() for path in outputs]
    if not directories:
        below = sorted(DEFAULT_OUTPUT.absolute().glob("*"))
        directories = [path for path in below if OutputPaths(path, "").runs.exists()]
        if not directories:
            raise UsageError(
                got=f"there are no runs below {DEFAULT_OUTPUT.absolute()}; name their "
                "output directory with --output DIR",
                name="E-output-not-found",
            )
    for directory in directories:
        if not directory.is_dir():
            raise UsageError(
                got=f"--output {directory}: there is no such directory; name the output "
                "directory of a run",
                name="E-output-not-found",
            )
    from pipeline.ui import launch

    launch.serve(directories, host, port, tuple(map(check_host, allowed_hosts)))
