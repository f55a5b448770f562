"""The command line: `python -m pipeline`, or `bert-pipeline`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bert_runtime.cli.refusals import refusing
from contracts.errors import UsageError
from contracts.records.checks import ChecksReport
from contracts.settings.evaluator import describe_selection
from contracts.storage import uris
from ingest import examples
from modules import environment
from pipeline import exit_status
from pipeline.cli import (
    check,
    clean,
    compare,
    completion,
    doctor,
    export,
    forget,
    monitor,
    onboarding,
    options,
    orchestrators,
    predict,
    refusals,
    releases,
    runs,
    serve,
    show_batch,
    storage_errors,
    ui,
    version,
)
from pipeline.cli.metric_tables import verdict_tables
from pipeline.config import recipe
from pipeline.config.invocation import command
from pipeline.console import (
    Console,
    guard_streams,
    open_terminal,
    printing_warnings,
)
from pipeline.inputs import encoder_source
from pipeline.local.interruption import end_process
from report.content import PAGE_FILE

if TYPE_CHECKING:
    from pipeline.operations.run import Run


def _print_prose(text: str, console: Console, style: str = "") -> None:
    """Prints a text; a terminal wraps it between words, a file gets whole lines."""
    soft_wrap = not console.is_interactive
    console.print(text, style=style, soft_wrap=soft_wrap)


def _print_error(error: object) -> None:
    console = Console(stderr=True, force_interactive=sys.stderr.isatty())
    _print_prose(f"error: {error}", console, style="red")


def _report(error: UsageError, command: click.Command) -> None:
    _print_error(refusals.describe(error, command))


class _Commands(click.Group):
    """Lists commands in sections; exits with `USAGE` on a `UsageError`.

    An error of storage is one line, too, and exits with `FAILURE`.
    """

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Writes the commands in the order in which a newcomer uses them."""
        limit = formatter.width - max(map(len, self.commands)) - 6  # as click's own
        for title, commands in SECTIONS.items():
            rows = [
                (str(entry.name), entry.get_short_help_str(limit)) for entry in commands
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def main(self, *args: Any, **options: Any) -> Any:
        """Parses the arguments and runs a command."""
        guard_streams()
        environment.escape_unprintable()
        return super().main(*args, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments before the name of the command."""
        with refusing(ctx, _report):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command."""
        try:
            with refusing(ctx, _report), printing_warnings():
                return super().invoke(ctx)
        except Exception as error:
            of_storage = storage_errors.find(error)
            if of_storage is None:
                raise
            _print_error(of_storage)
            ctx.exit(exit_status.FAILURE)


_STATUSES = "; ".join(f"{n} {text}" for n, text in sorted(exit_status.MEANINGS.items()))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    help="Fine-tune a pre-trained BERT on sentences or pairs; push it if it passes."
    f"\n\nExit status: {_STATUSES}.",
)
@version.OPTION
def main() -> None:
    """The command line."""


@click.command()
@options.CONFIG
@options.DATA
@options.ENCODER
@options.OUTPUT
@click.option("-v", "--verbose", is_flag=True, help="Also show the log of TFX.")
@options.SET
def run(
    config_file: Path,
    data: str | None,
    encoder: str | None,
    output: str | None,
    verbose: bool,
    overrides: dict[str, Any],
) -> None:
    """Run the whole pipeline on this machine.

    Ctrl-C stops it and saves a checkpoint of the training; the same command resumes it.
    """
    options.override_sources(overrides, data, encoder, output)
    config = recipe.load_config(config_file, overrides)
    # `run_locally` redirects the process's own descriptors to the log.
    with open_terminal() as terminal:
        # rich treats any output with colors as a terminal, such as the log of a CI job.
        console = Console(file=terminal, force_interactive=terminal.isatty())
        environment.set_up()
        # TFX's Beam executors parse it as absl's flags, whose -v takes a value.
        del sys.argv[1:]
        from pipeline.local.run import run_locally

        try:
            finished = run_locally(config, console, verbose=verbose)
        except UsageError:
            raise
        except KeyboardInterrupt:
            end_process(exit_status.INTERRUPTED)
        except SystemExit as stopped:  # raised for SIGTERM and SIGHUP
            end_process(int(stopped.code or 0))
        except Exception as error:  # the log has its traceback
            if storage_errors.find(error):
                raise  # `_Commands` prints the line
            console.print(f"failed: {type(error).__name__}: {error}")
            console.print("run.log in the run record above has the traceback")
            sys.exit(exit_status.FAILURE)
        sys.exit(show(finished, console))


@click.command("prepare-data")
@click.argument("source")
@click.argument("destination")
@options.CONFIG
@options.SET
def prepare_data(
    source: str, destination: str, config_file: Path, overrides: dict[str, Any]
) -> None:
    """Write SOURCE as TFRecords to DESTINATION, a new directory.

    SOURCE is a file, which is split; a directory with train.csv, eval.csv (or
    validation, dev) and optionally test.csv; or tfds:NAME. Other formats work, too, as
    in an unpacked GLUE archive. The recipe's task names the columns; --set task=stsb
    selects those of a GLUE task.
    """
    uris.refuse_pattern("destination", os.path.abspath(destination))
    task = recipe.load_task(config_file, overrides)
    settings = recipe.load_data(config_file, overrides)
    environment.set_up(quiet=True)
    examples.prepare(source, destination, task, click.echo, settings)


@click.command("import-encoder")
@click.argument("source")
@click.argument("destination", metavar="DEST")
@click.option(
    "--preprocessor",
    metavar="HANDLE_OR_DIR",
    help="The preprocessor of a TF Hub or Kaggle encoder, for its vocabulary.",
)
def import_encoder(source: str, destination: str, preprocessor: str | None) -> None:
    """Write the encoder SOURCE as a Model Garden checkpoint to DEST, a new directory.

    SOURCE is a Model Garden checkpoint, a Hugging Face folder or a SavedModel: a
    directory (local or gs://), package:NAME/PATH, or a TF Hub or Kaggle handle.
    """
    uris.refuse_pattern("destination", os.path.abspath(destination))
    environment.set_up(quiet=True)
    imported = encoder_source.import_encoder(
        source, destination, preprocessor, click.echo
    )
    for line in encoder_source.describe(imported):
        click.echo(line)


def show(run: Run, console: Console) -> int:
    """Prints how a run ended; returns the exit status."""
    data_verdict, verdict = run.data_verdict, run.verdict
    assert data_verdict is not None
    assert verdict is not None
    warnings = ChecksReport(results=run.checks).warnings
    for warning in (*data_verdict.warnings, *warnings):
        _print_prose(f"warning: {warning}", console)
    for table in verdict_tables(verdict.metrics):
        console.print(table)
    _print_prose(verdict.comparison, console)
    if selection := describe_selection(verdict.splits):
        _print_prose(selection, console)
    for result in run.checks:
        if result.status == "passed":
            _print_prose(f"{result.title}: {result.sentence}", console)
    page = run.directory / PAGE_FILE
    console.print(f"report {page}", soft_wrap=True)
    missing = f"; missing: {run.missing}" if run.missing else ""
    if run.pushed is None:
        _print_prose(f"refused: {run.reason}{missing}", console)
    else:
        console.print(f"pushed {run.pushed}{missing}", soft_wrap=True)
    if console.is_interactive:
        output = ("--output", run.paths.root)
        if run.pushed is not None:
            step = command("serve", "--model", run.pushed.parent)
        elif verdict.blessed and not run.model_checks.refusals:
            step = command("show", run.id, *output)
        else:
            override = command("override", run.id, "--reason", "TEXT", *output)
            step = f"open the report; to push the model anyway, {override}"
        console.print(f"next: {step}", soft_wrap=True)
    return exit_status.REFUSED if run.pushed is None else exit_status.SUCCESS


SECTIONS: dict[str, list[click.Command]] = {
    "Start": [
        doctor.doctor_command,
        onboarding.init_command,
        onboarding.inspect_command,
        prepare_data,
        import_encoder,
        show_batch.show_batch_command,
        completion.completion_command,
    ],
    "Run": [run, orchestrators.compile_command, orchestrators.submit_command],
    "Look": [
        runs.runs_command,
        runs.show_command,
        compare.compare_command,
        runs.lineage_command,
        ui.ui_command,
        clean.clean_command,
        forget.forget_command,
    ],
    "Serve": [
        serve.serve_command,
        predict.predict_command,
        export.export_command,
        check.check_command,
        monitor.monitor_command,
        releases.versions_command,
        releases.rollback_command,
        releases.override_command,
    ],
}
for _commands in SECTIONS.values():
    for _command in _commands:
        main.add_command(_command)
