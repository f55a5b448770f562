"""The command line: `python -m pipeline`, or `bert-pipeline`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from modules import environment
from pipeline.beam import beam_arguments
from pipeline.cli import options, orchestrators, serve
from pipeline.config import recipe
from pipeline.config.errors import UsageError

if TYPE_CHECKING:
    from pipeline.local.report import RunReport
    from pipeline.prediction.predictor import Prediction

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3

_FORMATS = click.Choice(["tsv", "jsonl", "parquet", "tfrecord"])


class _Commands(click.Group):
    """Turns errors a user can mend into one message and exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            Console(stderr=True).print(
                f"error: {error}", markup=False, style="red", soft_wrap=True
            )
            ctx.exit(EXIT_USAGE)


@click.group(cls=_Commands)
@click.version_option(package_name="bert-fine-tuning-pipeline")
def main() -> None:
    """Fine-tune a pre-trained BERT on sentences or pairs, and ship what passes.

    Exit status: 0 done; 1 a failure; 2 bad usage, settings or data;
    3 the model was refused.
    """


main.add_command(orchestrators.compile_command)
main.add_command(orchestrators.submit_command)
main.add_command(serve.serve_command)


@main.command()
@options.CONFIG
@click.option("--data", metavar="DIR", help="TSV or TFRecord splits, or tfds:NAME.")
@click.option(
    "--encoder",
    metavar="DIR",
    help="Pre-trained encoder: a directory, package:NAME/PATH or a TF Hub handle.",
)
@click.option("--output", metavar="DIR", help="Where everything is written.")
@options.SET
def run(
    config_file: Path,
    data: str | None,
    encoder: str | None,
    output: str | None,
    settings: tuple[str, ...],
) -> None:
    """Run the whole pipeline on this machine."""
    overrides = dict(recipe.parse_override(text) for text in settings)
    given = {"data.source": data, "output": output}
    overrides |= {key: value for key, value in given.items() if value is not None}
    if encoder is not None:
        # The recipe's checksum is of the recipe's weights.
        overrides |= {"encoder.source": encoder, "encoder.sha256": None}
    config = recipe.load_config(config_file, overrides)
    # A descriptor of its own: those of the process go to the log while it runs.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as terminal:
        console = Console(file=terminal)
        environment.set_up()
        from pipeline.local.run import run_locally

        try:
            report = run_locally(config, console)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 (the log has its traceback)
            console.print(f"failed: {type(error).__name__}: {error}", markup=False)
            console.print("run.log in the run record above has the traceback")
            sys.exit(EXIT_FAILURE)
        sys.exit(_show(report, console))


@main.command("prepare-data")
@click.argument("source")
@click.argument("destination")
@options.CONFIG
@options.SET
def prepare_data(
    source: str, destination: str, config_file: Path, settings: tuple[str, ...]
) -> None:
    """Write SOURCE as TFRecords to DESTINATION, a new directory.

    SOURCE is a directory with train.tsv, eval.tsv (or validation.tsv, dev.tsv) and
    maybe test.tsv, of one's own or of a GLUE archive, or tfds:NAME. The recipe's task
    names the columns; --set task=stsb takes a GLUE task's.
    """
    overrides = dict(recipe.parse_override(text) for text in settings)
    task = recipe.load_task(config_file, overrides)
    environment.set_up(quiet=True)
    from pipeline.inputs import examples

    examples.prepare(source, destination, task, click.echo)


@main.command("import-encoder")
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
    environment.set_up(quiet=True)
    from pipeline.inputs import encoder_source

    imported = encoder_source.import_encoder(
        source, destination, preprocessor, click.echo
    )
    for line in encoder_source.describe(imported):
        click.echo(line)


@main.command()
@click.option("--model", required=True, metavar="DIR", help="A pushed model.")
@click.option("--text", multiple=True, help="A text. May be repeated.")
@click.option(
    "--pair", nargs=2, multiple=True, metavar="A B", help="Two texts. May be repeated."
)
@click.option(
    "--input",
    "source",
    metavar="FILES",
    help="Texts: a .tsv or .jsonl file; for a directory also .parquet and .tfrecord, "
    "a directory or a glob of either.",
)
@click.option(
    "--output",
    "destination",
    metavar="FILE_OR_DIR",
    help="A .tsv or .jsonl file, or a new directory, which Beam writes.",
)
@click.option(
    "--format",
    "input_format",
    type=_FORMATS,
    help="Of --input, where the names of its files do not say it.",
)
@click.option("--output-format", type=_FORMATS, help="That of --input by default.")
@click.option(
    "--batch-rows",
    type=click.IntRange(min=1),
    help="Rows that the model is asked at a time.",
)
@click.option(
    "--strict", is_flag=True, help="Write nothing where a row cannot be predicted."
)
@options.CONFIG
@options.SET
def predict(
    model: str,
    text: tuple[str, ...],
    pair: tuple[tuple[str, str], ...],
    source: str | None,
    destination: str | None,
    config_file: Path,
    settings: tuple[str, ...],
    **batch: Any,
) -> None:
    """Predict the class or the score of texts with a pushed model.

    A model of single sentences takes --text, one of pairs --pair. --input and --output
    take files: one in order, into a .tsv or .jsonl file, or any number with Beam, into
    a directory (docs/batch.md). The last options are of that alone; of the recipe, the
    section `beam` says where Beam runs.
    """
    if [bool(text), bool(pair), bool(source)].count(True) != 1:
        raise UsageError(
            "give one of --text TEXT (for a model of single sentences), --pair A B "
            "(for one of pairs) and --input FILE"
        )
    if bool(source) != bool(destination):
        raise UsageError("--input FILE and --output FILE go together: give both")
    is_batch = bool(destination) and not str(destination).endswith((".tsv", ".jsonl"))
    if not is_batch and (settings or any(batch.values())):
        raise UsageError(
            "--format, --output-format, --batch-rows, --strict and --set are of a "
            "directory: name one with --output"
        )
    environment.set_up(quiet=True)
    from pipeline.prediction import predictor

    if source and destination and is_batch:
        overrides = dict(recipe.parse_override(text) for text in settings)
        beam_args = beam_arguments(recipe.load_beam(config_file, overrides))
        _predict_files(model, source, destination, beam_args=beam_args, **batch)
        return
    if source and destination:
        count = predictor.predict_file(model, source, destination)
        click.echo(f"{count} predictions written to {destination}")
        return
    rows = [*pair, *((each,) for each in text)]
    Console().print(_table(list(predictor.predict_texts(model, rows))))


def _predict_files(
    model: str,
    source: str,
    destination: str,
    beam_args: tuple[str, ...],
    batch_rows: int | None,
    **batch: Any,
) -> None:
    from pipeline.prediction import batch as batch_prediction

    rows = batch_rows or batch_prediction.BATCH_ROWS
    terminal = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=terminal,
        transient=True,
        disable=not terminal.is_terminal,
    ) as shown:
        task = shown.add_task("predicting")
        done = batch_prediction.predict_files(
            model,
            source,
            destination,
            beam_args=beam_args,
            input_format=batch["input_format"],
            output_format=batch["output_format"],
            batch_rows=rows,
            is_strict=batch["strict"],
            progress=lambda count: shown.update(
                task, description=f"predicting, {count:,} rows so far"
            ),
        )
    refused = f", {done.refused} refused" if done.refused else ""
    click.echo(
        f"{done.predicted} rows predicted{refused}, in {destination}, "
        f"{done.seconds:.1f} s"
    )


def _table(predictions: list[Prediction]) -> Table:
    first = predictions[0]
    values = ["score"] if first.is_score else ["class", "probability"]
    table = Table(*("text" for _ in first.texts), *values)
    for row in predictions:
        cells = [*row.texts]
        if row.probability is None:
            cells.append(f"{row.value:.3f}")
        else:
            cells += [str(row.value), f"{row.probability:.3f}"]
        table.add_row(*map(escape, cells))
    return table


def _show(report: RunReport, console: Console) -> int:
    components = Table("component", "seconds", "")
    for component in report.components:
        state = "cached" if component.is_cached else "run"
        components.add_row(component.name, f"{component.seconds:.1f}", state)
    console.print(components)
    metrics = Table("metric", "candidate", "champion", "threshold", "at most below", "")
    for metric in report.verdict.metrics:
        values = (metric.champion, metric.threshold, metric.max_regression)
        metrics.add_row(
            metric.metric,
            f"{metric.value:.4g}",
            *("" if value is None else f"{value:.4g}" for value in values),
            ("failed" if metric.failures else "passed") if metric.is_bounded else "",
        )
    console.print(metrics)
    console.print(report.verdict.comparison, markup=False, soft_wrap=True)
    if report.pushed is None:
        reasons = [*report.verdict.failures, *report.serving_failures]
        why = "; ".join(reasons) or "the Evaluator did not bless the model"
        console.print(f"refused: {why}", markup=False, soft_wrap=True)
        return EXIT_REFUSED
    console.print(f"pushed {report.pushed}", markup=False, soft_wrap=True)
    return 0
