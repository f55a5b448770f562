"""The command that compares runs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from contracts import wording
from pipeline.cli import options
from pipeline.cli.metric_tables import comparison_table
from pipeline.console import Console, print_json

if TYPE_CHECKING:
    from pipeline.operations.comparison import ChangedRow, Comparison

_NO_LABEL = "(no label)"  # of several


@click.command("compare")
@click.argument("compared", metavar="RUN RUN...", nargs=-1)
@options.RUNS_OUTPUT
@options.RUNS_CONFIG
@click.option("--split", help="Evaluated split.  [default: the one that decided]")
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=10,
    help="Changed rows to show. With 0 the texts are not read, which is faster.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all rows.")
@click.option(
    "--csv",
    "csv_file",
    type=options.NewFile(),
    help="Write all changed rows to a file, which is replaced if it exists.",
)
def compare_command(
    compared: tuple[str, ...],
    output: str | None,
    config_file: Path | None,
    split: str | None,
    rows: int,
    as_json: bool,
    csv_file: Path | None,
) -> None:
    """Compare two or more runs on the rows that all of them predicted.

    RUN is an id below runs/ of the output directory, `latest`, the path of a run's
    directory below any output directory, or a pushed version. The other runs are
    compared with the first: settings, metrics with a test of their difference, and the
    rows whose prediction changed.
    """
    paths = options.output_paths(config_file, output)
    from pipeline.api.looking import compare

    with_texts = rows > 0 or as_json or csv_file is not None
    comparison = compare(
        *compared, output=paths.root, split=split, with_texts=with_texts
    )
    if csv_file is not None:
        _write_csv(comparison, csv_file)
    if as_json:
        # pydantic's own JSON has NaN as a string.
        print_json(comparison.as_json())
        return
    console = Console()
    for letter, run in zip(comparison.letters, comparison.runs, strict=True):
        extra = run.rows - comparison.rows
        line = f"{letter}  {run.name}: {wording.count(run.rows, 'row')}"
        if extra:
            line += f"; left out: {wording.count(extra, 'row')} of this run only"
        _print(console, line)
    if comparison.warning:
        _print(console, comparison.warning)
    if comparison.settings:
        columns = ("setting", *comparison.letters)
        table = Table(*(Column(name, overflow="fold") for name in columns))
        for setting in comparison.settings:
            values = ("" if v is None else str(v) for v in setting.values)
            table.add_row(setting.key, *values)
        console.print(table)
    else:
        console.print("The settings are the same.")
    console.print(comparison_table(comparison))
    for letter, run in zip(comparison.letters[1:], comparison.runs[1:], strict=True):
        test = run.tests[comparison.metric]
        _print(console, f"{letter} against A: {test.sentence}")
        if test.only_a_right is not None:
            only_a = wording.count(test.only_a_right, "row")
            line = f"  right only in A: {only_a}, only in {letter}: "
            _print(console, f"{line}{test.only_b_right:,}")
    count, shown = len(comparison.changed), comparison.changed[:rows]
    line = f"{count:,} of {comparison.rows:,} predictions on {comparison.split} changed"
    if shown:
        of_label = ", with the probability of the label" * bool(shown[0].probabilities)
        line += f"; the largest changes{of_label}:"
    _print(console, line)
    for row in shown:
        _show_row(row, comparison.letters, console)
    if rows < count:
        _print(console, "--rows N shows more of them; --csv FILE writes all of them")


def _show_row(row: ChangedRow, letters: str, console: Console) -> None:
    """Prints a row's predictions, with the probability of its label, and its texts."""
    line = Text(f"{row.id} {row.label or _NO_LABEL}:", style="bold")
    for index, prediction in enumerate(row.predictions):
        style = "" if prediction == row.label or not row.probabilities else "red"
        line.append(f" {letters[index]} ", style="not bold")
        line.append(prediction or _NO_LABEL, style=f"not bold {style}")
        if row.probabilities:
            line.append(f" ({row.probabilities[index]:.3f})", style="not bold dim")
    console.print(line)
    for text in row.texts:
        console.print(Padding(Text(text), (0, 0, 0, 4), expand=False))


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True)


def _write_csv(comparison: Comparison, path: Path) -> None:
    """Writes a line for each changed row; columns are named after the runs."""
    names, columns = [run.name for run in comparison.runs], comparison.text_columns
    has_probabilities = any(row.probabilities for row in comparison.changed)
    header = ["id", *columns, "label", *(f"prediction {name}" for name in names)]
    if has_probabilities:
        header += [f"probability of the label {name}" for name in names]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row in comparison.changed:
            texts = row.texts or [""] * len(columns)
            writer.writerow(
                [row.id, *texts, row.label, *row.predictions, *row.probabilities]
            )
