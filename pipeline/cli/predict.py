"""The command that predicts with a pushed model."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from bert_runtime.cli import predict as shared
from contracts import wording
from contracts.errors import UsageError
from contracts.settings.data import FileFormat
from ingest.rows.formats import ARROW, FORMATS, SPREADSHEETS, format_of
from modules import environment
from pipeline.beam import beam_arguments
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.console import Console
from prediction.model_directory import find_model
from prediction.predict_file import WRITTEN_FORMATS, predict_file
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from report.formatting import duration

_NO_DIRECTORIES = (*SPREADSHEETS, ".txt", ".json")


@click.command("predict")
@click.option("--model", required=True, metavar="DIR", help="A pushed model.")
@shared.TEXT
@shared.PAIR
@click.option(
    "--input",
    "source",
    metavar="FILES",
    help="Texts: a .csv, .tsv, .jsonl, .parquet or .arrow file; if --output is a "
    "directory also .tfrecord files, a directory or a glob.",
)
@click.option(
    "--output",
    "destination",
    metavar="FILE_OR_DIR",
    help="A .csv, .tsv or .jsonl file, or one of these with .gz, or a new directory, "
    "which Beam writes.",
)
@click.option(
    "--format",
    "input_format",
    type=click.Choice(FORMATS),
    help="Format of --input. Default: by the names of its files.",
)
@click.option(
    "--output-format",
    type=click.Choice([name for name in FORMATS if name != ARROW]),
    help="Format of --output. Default: that of --input.",
)
@shared.MIN_PROBABILITY
@click.option(
    "--batch-rows", type=click.IntRange(min=1), help="Rows per call of the model."
)
@click.option(
    "--strict", is_flag=True, help="Write nothing if a row cannot be predicted."
)
@options.CONFIG
@options.SET
def predict_command(
    model: str,
    text: tuple[str, ...],
    pair: tuple[tuple[str, str], ...],
    source: str | None,
    destination: str | None,
    config_file: Path,
    overrides: dict[str, Any],
    input_format: FileFormat | None,
    min_probability: float | None,
    strict: bool,
    **batch: Any,
) -> None:
    """Predict the class, the labels or the score of texts with a pushed model.

    A model of single sentences takes --text, a model of pairs --pair. --input and
    --output take files. One file can be predicted in order into a .csv, .tsv or .jsonl
    file; Beam predicts any number of files into a directory (docs/batch.md). The
    section `data` of the recipe sets how the files are read, such as --set
    data.encoding=cp1252, and `beam` where Beam runs.
    """
    shared.check_request(text, pair, source, destination)
    reading = recipe.load_data(config_file, overrides)
    # The recipe's format belongs to the recipe's own data.
    reading = reading.model_copy(update={"format": input_format})
    name = (destination or "").lower().removesuffix(".gz")
    if name.endswith(_NO_DIRECTORIES):
        raise UsageError(
            "destination",
            destination,
            "a directory, or a file with the ending .csv, .tsv or .jsonl",
            name="E-format-unknown",
        )
    if source and destination and format_of(name) not in WRITTEN_FORMATS:
        beam_args = beam_arguments(recipe.load_beam(config_file, overrides))
        batch |= {"beam_args": beam_args, "is_strict": strict, "reading": reading}
        batch |= {"min_probability": min_probability}
        _predict_files(model, source, destination, batch)
        return
    if strict or any(batch.values()):
        raise UsageError(
            got="`output_format`, `batch_rows` and `strict` apply to a directory",
            advice="name one with `destination=DIR`",
            name="E-options-conflict",
        )
    environment.set_up(quiet=True)
    find = functools.partial(find_model, model)
    load = functools.partial(SavedModelPredictor, min_probability=min_probability)
    if source and destination:
        counts = predict_file(find, load, source, destination, reading)
        click.echo(shared.describe_file(counts, destination, min_probability))
        return
    rows = shared.check_texts(text, pair)
    predictor = load(find())
    predictions = list(predictor.predict(rows))
    table = Table(*("text" for _ in rows[0]), *shared.name_cells(predictor))
    for texts, prediction in zip(rows, predictions, strict=True):
        table.add_row(*texts, *shared.show_cells(prediction))
    Console().print(table)
    if abstained := shared.describe_abstained(predictions, min_probability):
        click.echo(abstained)


def _predict_files(
    model: str, source: str, destination: str, settings: dict[str, Any]
) -> None:
    environment.set_up(quiet=True)
    from prediction.batch import BatchOptions, predict_files

    known = {name: value for name, value in settings.items() if value is not None}
    terminal = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=terminal,
        transient=True,
        disable=not terminal.is_terminal,
    ) as display:
        task = display.add_task("predicting")
        summary = predict_files(
            model,
            source,
            destination,
            BatchOptions(**known),
            progress=lambda rows: display.update(
                task, description=f"predicting, {wording.count(rows, 'row')} so far"
            ),
        )
    refused = f", {summary.refused} refused" if summary.refused else ""
    abstained = shared.count_abstained(
        summary.predicted, summary.abstained, settings["min_probability"]
    )
    click.echo(
        f"{wording.count(summary.predicted, 'row')} predicted{abstained}{refused}, in "
        f"{destination}, "
        f"{duration(summary.seconds)}"
    )
