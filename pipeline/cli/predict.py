"""The command that predicts with a pushed model."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from contracts import row_values, wording
from contracts.errors import UsageError
from contracts.settings.data import FileFormat
from ingest.rows.formats import ARROW, FORMATS, SPREADSHEETS, format_of
from modules import environment
from pipeline.api.arguments import MinProbability
from pipeline.beam import beam_arguments
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.console import Console
from prediction.predict_file import WRITTEN_FORMATS, predict_file
from prediction.saved_model.model_directory import find_model
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from report.formatting import duration

_NO_DIRECTORIES = (*SPREADSHEETS, ".txt", ".json")


@click.command("predict")
@click.option("--model", required=True, metavar="DIR", help="A pushed model.")
@click.option("--text", multiple=True, help="A text. Repeatable.")
@click.option(
    "--pair", nargs=2, multiple=True, metavar="A B", help="Two texts. Repeatable."
)
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
@click.option(
    "--min-probability",
    type=options.allowed(MinProbability),
    metavar="P",
    help="Predict no class with a probability below P.",
)
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
    if [bool(text), bool(pair), bool(source)].count(True) != 1:
        raise UsageError(
            advice="give one of `text=TEXT` (for a model of single sentences), "
            "`pair=A B` (for a model of pairs) and `source=FILE`",
            name="E-options-conflict",
        )
    if bool(source) != bool(destination):
        raise UsageError(
            advice="give both `source=FILE` and `destination=FILE`",
            name="E-options-conflict",
        )
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
        described = _describe_abstained(*counts, min_probability)
        click.echo(
            f"{wording.count(counts.rows, 'prediction')}{described} written to "
            f"{destination}"
        )
        return
    rows: list[tuple[str, ...]] = [*pair, *((single,) for single in text)]
    for value in itertools.chain.from_iterable(rows):
        if problem := row_values.find_text_problem(value, allows_marks=True):
            raise UsageError(
                "pair" if pair else "text",
                f"the text {problem}",
                advice="correct it",
                name="E-text-refused",
            )
    predictor = load(find())
    predictions = list(predictor.predict(rows))
    values = ["class", "probability"]
    if predictor.is_score or predictor.labels:
        values = ["score" if predictor.is_score else "labels"]
    table = Table(*("text" for _ in rows[0]), *values)
    for texts, prediction in zip(rows, predictions, strict=True):
        match prediction.value:
            case float(score):
                cells = [f"{score:.3f}"]
            case list(labels):
                shares = prediction.probabilities
                cells = [", ".join(f"{name} ({shares[name]:.3f})" for name in labels)]
            case class_name:
                cells = [class_name or "", f"{prediction.probability:.3f}"]
        table.add_row(*texts, *cells)
    Console().print(table)
    abstained = sum(prediction.value is None for prediction in predictions)
    described = _describe_abstained(len(rows), abstained, min_probability)
    if described:
        click.echo(f"{wording.count(len(rows), 'prediction')}{described}")


def _describe_abstained(
    rows: int, abstained: int, min_probability: float | None
) -> str:
    if min_probability is None:
        return ""
    return (
        f" ({abstained} of {rows} without a class: probability below "
        f"{min_probability:g})"
    )


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
    abstained = _describe_abstained(
        summary.predicted, summary.abstained, settings["min_probability"]
    )
    click.echo(
        f"{wording.count(summary.predicted, 'row')} predicted{abstained}{refused}, in "
        f"{destination}, "
        f"{duration(summary.seconds)}"
    )
