"""The command that serves the web view of runs."""

from __future__ import annotations

from pathlib import Path

import click

from bert_runtime.cli.options import ALLOWED_HOSTS, HOST, check_host
from contracts.errors import UsageError
from pipeline.api.arguments import Port, check_output
from pipeline.cli import options
from pipeline.config.paths import DEFAULT_OUTPUT, OutputPaths


@click.command("ui")
@options.output_option(
    f"Output directory of runs. Repeatable. Default: those below {DEFAULT_OUTPUT}/.",
    type=click.Path(path_type=Path),
    multiple=True,
)
@HOST
@ALLOWED_HOSTS
@click.option(
    "--port", type=options.allowed(Port), default=8600, help="Port. 0 picks a free one."
)
def ui_command(
    output: tuple[Path, ...], host: str, allowed_hosts: tuple[str, ...], port: int
) -> None:
    """Show the runs of output directories in a browser.

    It has a table of runs with their reports, a common plot of learning curves, the
    comparison of runs, and the progress of running ones. It changes no file.
    """
    directories = [path.absolute() for path in output]
    if not directories:
        below = sorted(DEFAULT_OUTPUT.absolute().glob("*"))
        directories = [path for path in below if OutputPaths(path, "").runs.exists()]
        if not directories:
            raise UsageError(
                str(DEFAULT_OUTPUT.absolute()),
                "there are no runs below it",
                advice="name their output directory with `output=DIR`",
                name="E-output-not-found",
            )
    for directory in directories:
        check_output(OutputPaths(directory, ""))
    from pipeline.operations.ui import app

    app.serve(directories, host, port, tuple(map(check_host, allowed_hosts)))
