"""The command that runs checks on a pushed model."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from contracts import wording
from contracts.records.checks import STATUS_MARKS, CheckResult, ShownRow, sort_results
from modules import environment
from pipeline import exit_status
from pipeline.cli import completion, options
from pipeline.config.recipe import load_config
from pipeline.console import Console, print_json
from prediction.model_directory import find_model
from report.formatting import cell, printable, shorten

_MAX_ROWS = 20  # of a check that are printed
_MAX_TEXT = 200


@click.command("check")
@click.option(
    "--model",
    required=True,
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="A pushed model.",
)
@click.option(
    "--config",
    "recipe",
    type=click.Path(path_type=Path),
    shell_complete=completion.complete_recipe,
    help="Recipe with the data and the checks. Default: the settings of the run that "
    "pushed the model.",
)
@options.SET
@options.JSON
def check_command(
    model: str, recipe: Path | None, overrides: dict[str, Any], as_json: bool
) -> None:
    """Run the checks of a recipe on a pushed model, without training.

    DIR is a version, or a directory of versions, of which the newest is checked. The
    exit status is 3 if a check refuses the model; the served version does not change.
    """
    config = None if recipe is None else load_config(recipe, overrides)
    directory = find_model(model)
    from pipeline.operations import checking

    if config is None:
        config = checking.find_recipe(directory, overrides)
    environment.set_up(quiet=True)
    report = functools.partial(click.echo, err=True)
    with Console(stderr=True).status("checking"):
        results = checking.check_version(directory, config, report)
    if as_json:
        print_json([result.as_json() for result in results])
    else:
        console = Console(highlight=False)
        console.print(f"model {directory}", soft_wrap=True)
        print_checks(sort_results(results), console, most_rows=_MAX_ROWS)
    if any(result.status == "refused" for result in results):
        sys.exit(exit_status.REFUSED)


def print_checks(
    results: Sequence[CheckResult], console: Console, *, most_rows: int = 0
) -> None:
    """Prints a line for each check, and one for those that do not apply.

    Args:
      results: The results.
      console: Prints them.
      most_rows: How many rows of a warning or a refusal are printed.
    """
    others = []
    for result in results:
        if result.status == "not applicable":
            others.append(result.title)
            continue
        symbol, color = STATUS_MARKS[result.status]
        status = Text.assemble((f"{symbol} {result.status}", color))
        line = status.append(f" {result.title}: {result.message}")
        console.print(line, soft_wrap=True)
        rows = result.rows if most_rows and result.status != "passed" else []
        for row in rows[:most_rows]:
            console.print(Text(f"  {_describe(row)}"), soft_wrap=True)
        if len(rows) > most_rows:
            more = wording.count(len(rows) - most_rows, "more row")
            console.print(f"  and {more}; --json has all")
    if others:
        console.print(f"not applicable: {', '.join(others)}", soft_wrap=True)


def _describe(row: ShownRow) -> str:
    texts = (shorten(printable(text), _MAX_TEXT) for text in row.texts.values())
    facts = ", ".join(
        f"{name} {cell(value)}"
        for name, value in row.shown_facts.items()
        if value is not None
    )
    return f"{' | '.join(texts)} ({facts})"
