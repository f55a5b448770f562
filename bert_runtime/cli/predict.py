"""The command `predict`, and what it shares with the one of `bert-pipeline`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import click
from pydantic import ValidationError

from bert_runtime.arguments import MinProbability
from bert_runtime.cli import options
from contracts import row_values, setting_problems, wording
from contracts.errors import UsageError
from contracts.settings.data import DELIMITERS, DataConfig
from ingest.rows.formats import FORMATS, TFRECORD
from prediction.predict_file import Counts, predict_file
from prediction.predictor import Prediction, Predictor

_Rows = Sequence[tuple[str, ...]]
# The options that set how a file is read, by the settings that errors name.
SETTINGS = {
    "data.format": "input_format",
    **{
        f"data.{name}": name
        for name in ("encoding", "delimiter", "quoting", "quote", "columns")
    },
}

TEXT = click.option("--text", multiple=True, help="A text. Repeatable.")
PAIR = click.option(
    "--pair", nargs=2, multiple=True, metavar="A B", help="Two texts. Repeatable."
)
MIN_PROBABILITY = click.option(
    "--min-probability",
    type=options.allowed(MinProbability),
    metavar="P",
    help="Predict no class with a probability below P.",
)


@click.command("predict")
@click.option(
    "--model",
    required=True,
    metavar="DIR",
    help="Folder of an exported model, or a directory of versions, whose newest is "
    "used.",
)
@TEXT
@PAIR
@click.option(
    "--input",
    "source",
    metavar="FILE",
    help="Texts: a .csv, .tsv or .jsonl file, also with .gz; with pyarrow also a "
    ".parquet or .arrow file.",
)
@click.option(
    "--output",
    "destination",
    metavar="FILE",
    help="A .csv, .tsv or .jsonl file, or one of these with .gz.",
)
@click.option(
    "--format",
    "input_format",
    type=click.Choice([name for name in FORMATS if name != TFRECORD]),
    help="Format of --input. Default: by its name.",
)
@MIN_PROBABILITY
@options.INT8
@options.THREADS
@click.option(
    "--encoding",
    metavar="NAME",
    help="Python's name of the encoding of --input, such as cp1252. Default: utf-8.",
)
@click.option(
    "--delimiter",
    metavar="CHARACTER",
    help="Separator of the fields of CSV and TSV: a character, or "
    f"{', '.join(DELIMITERS)}. Default: detected.",
)
@click.option(
    "--quoting",
    type=click.Choice(["double", "backslash", "none"]),
    help="How CSV and TSV write a quote in a quoted field; none has no quoted fields. "
    "Default: detected.",
)
@click.option(
    "--quote",
    metavar="CHARACTER",
    help="Character around the fields of CSV and TSV. Default: detected.",
)
@click.option(
    "--columns",
    metavar="NAMES",
    help="Names of the columns of CSV and TSV without a header, such as id,text.",
)
def predict_command(
    model: str,
    text: tuple[str, ...],
    pair: tuple[tuple[str, str], ...],
    source: str | None,
    destination: str | None,
    input_format: str | None,
    min_probability: float | None,
    int8: bool,
    threads: int | None,
    **reading: Any,
) -> None:
    """Predict the class, the labels or the score of texts.

    A model of single sentences takes --text, a model of pairs --pair. --input and
    --output take files; the rows keep their columns and their order.
    """
    check_request(text, pair, source, destination)
    settings = _read_settings({"format": input_format, **reading})

    def load(directory: str) -> Predictor:
        from bert_runtime.model import open_predictor  # imports ONNX Runtime

        return open_predictor(directory, min_probability, is_int8=int8, threads=threads)

    if source and destination:
        find = functools.partial(str, model)
        counts = predict_file(
            find, load, source, destination, settings, can_write_directories=False
        )
        click.echo(describe_file(counts, destination, min_probability))
        return
    rows = check_texts(text, pair)
    predictor = load(model)
    predictions = list(predictor.predict(rows))
    lines = [[*("text" for _ in rows[0]), *name_cells(predictor)]]
    for texts, prediction in zip(rows, predictions, strict=True):
        lines.append([*texts, *show_cells(prediction)])
    for line in lines:
        click.echo("\t".join(" ".join(cell.split()) for cell in line))
    if abstained := describe_abstained(predictions, min_probability):
        click.echo(abstained)


def check_request(
    text: Sequence[str],
    pair: Sequence[tuple[str, str]],
    source: str | None,
    destination: str | None,
) -> None:
    """Raises a UsageError if the options do not name texts or a file and its output."""
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


def check_texts(text: Sequence[str], pair: Iterable[tuple[str, str]]) -> _Rows:
    """Returns the rows of `--text` or `--pair`.

    Raises:
      UsageError: A text has no visible character.
    """
    rows: list[tuple[str, ...]] = [*pair, *((single,) for single in text)]
    for value in itertools.chain.from_iterable(rows):
        if problem := row_values.find_text_problem(value, allows_marks=True):
            raise UsageError(
                "text" if text else "pair",
                f"the text {problem}",
                advice="correct it",
                name="E-text-refused",
            )
    return rows


def name_cells(predictor: Predictor) -> list[str]:
    """Returns the heads of the cells of a prediction."""
    if predictor.is_score or predictor.labels:
        return ["score" if predictor.is_score else "labels"]
    return ["class", "probability"]


def show_cells(prediction: Prediction) -> list[str]:
    """Returns the cells of a prediction."""
    match prediction.value:
        case float(score):
            return [f"{score:.3f}"]
        case list(labels):
            shares = prediction.probabilities
            return [", ".join(f"{name} ({shares[name]:.3f})" for name in labels)]
        case class_name:
            return [class_name or "", f"{prediction.probability:.3f}"]


def describe_file(
    counts: Counts, destination: str, min_probability: float | None
) -> str:
    """Returns the line about a written file."""
    abstained = count_abstained(*counts, min_probability)
    return (
        f"{wording.count(counts.rows, 'prediction')}{abstained} written to "
        f"{destination}"
    )


def describe_abstained(
    predictions: Sequence[Prediction], min_probability: float | None
) -> str:
    """Returns the line about the rows without a class; empty if all rows get one."""
    abstained = sum(prediction.value is None for prediction in predictions)
    described = count_abstained(len(predictions), abstained, min_probability)
    return described and f"{wording.count(len(predictions), 'prediction')}{described}"


def count_abstained(rows: int, abstained: int, min_probability: float | None) -> str:
    """Returns the number of rows without a class, to follow the number of rows."""
    if min_probability is None:
        return ""
    return (
        f" ({abstained} of {rows} without a class: probability below "
        f"{min_probability:g})"
    )


def _read_settings(given: dict[str, Any]) -> DataConfig:
    settings = {name: value for name, value in given.items() if value is not None}
    try:
        return DataConfig(**settings)
    except ValidationError as error:
        raise setting_problems.describe(error.errors()[0], "data") from error
