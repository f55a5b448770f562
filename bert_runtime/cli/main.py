"""The command line of the runtime: `bert-runtime`."""

from __future__ import annotations

import sys
from typing import Any

import click

from bert_runtime.cli import predict, refusals, serve
from contracts.errors import UsageError

_PROJECT = "bert-pipeline-runtime"


class _Commands(click.Group):
    """Prints an error of usage as one line, and exits with status 2."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Parses the arguments and runs a command."""
        for stream in (sys.stdout, sys.stderr):
            # A stream of ASCII must not fail on a text.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        return super().main(*args, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments before the name of the command."""
        with refusals.refusing(ctx, _report):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command."""
        with refusals.refusing(ctx, _report):
            return super().invoke(ctx)


def _report(error: UsageError, command: click.Command) -> None:
    click.echo(
        f"error: {refusals.describe(error, command, predict.SETTINGS)}", err=True
    )


def _show_version(context: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given:
        from importlib import metadata  # takes a third of the time of `--help`

        try:
            version = metadata.version(_PROJECT)
        except metadata.PackageNotFoundError:  # not installed: in the repository
            version = "unknown"
        click.echo(f"bert-runtime {version}")
        context.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Print the version.",
)
def main() -> None:
    """Predict with an exported model, or serve it.

    Exit status: 0 success; 1 failure; 2 bad usage.
    """


for _command in (predict.predict_command, serve.serve_command):
    main.add_command(_command)


if __name__ == "__main__":
    main()
