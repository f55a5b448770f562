"""The commands that inspect a user's own data, and write a project for them."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Column, Table

from contracts import wording
from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from modules import environment
from pipeline import exit_status
from pipeline.api.arguments import TestSize
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.config.invocation import command
from pipeline.console import Console, print_json
from pipeline.onboarding.data_set import Choices
from pipeline.onboarding.guess import Kind

if TYPE_CHECKING:
    from pipeline.onboarding.create import Project
    from pipeline.onboarding.inspection import Inspection

_LABELS_SHOWN = 10

# What each choice sets in a recipe.
_SETTINGS = {
    "text": "task.text_columns",
    "label": "task.label_column",
    "kind": "task.kind, task.classes or task.label_range",
    "group": "data.group_column",
    "columns": "data.columns",
    "test_size": "data.test_size",
}
_CHOICES: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--text",
        multiple=True,
        metavar="COLUMN",
        help="Text column; give it twice for pairs. By default it is guessed.",
    ),
    click.option("--label", metavar="COLUMN", help="Label column. By default guessed."),
    click.option(
        "--kind",
        type=options.allowed(Kind),
        help="Whether the label is a class, a score, or any number of labels. By "
        "default guessed.",
    ),
    click.option(
        "--group",
        metavar="COLUMN",
        help="Column, such as an author; rows with equal values stay in one split. "
        "Existing splits that share a value are refused.",
    ),
    click.option(
        "--columns",
        metavar="NAMES",
        help="Names of the columns of CSV and TSV without a header, with commas "
        "between them, such as text,label. By default they are in the first line.",
    ),
    click.option(
        "--test-size",
        type=options.allowed(TestSize),
        help="Share of the rows of the split test.  "
        f"[default: {DataConfig().test_size}, more if there are few rows]",
    ),
)


def _choices(function: Callable[..., Any]) -> Callable[..., Any]:
    # click lists options in the order of their decorators, which apply bottom up.
    for option in reversed(_CHOICES):
        function = option(function)
    return function


@click.command("init")
@click.argument("folder")
@click.option(
    "--data", required=True, metavar="PATH", help="A file, or a directory of splits."
)
@_choices
@options.ENCODER
@options.SET
def init_command(
    folder: str,
    data: str,
    encoder: str | None,
    overrides: dict[str, Any],
    test_size: float | None,
    **choices: Any,
) -> None:
    """Write a project for your own data to FOLDER, a new folder.

    It guesses the columns, the classes and the settings, shows them, splits the rows,
    and writes a recipe, a README and the splits. If a run would refuse the data, it
    shows why and writes nothing. Settings of `data`, such as --set
    data.encoding=cp1252, apply to reading, other settings to the recipe.
    """
    from pipeline.api.recipes import describe_refusal, write_project

    environment.set_up(quiet=True)
    with _progress() as progress:
        project = write_project(
            Path(folder),
            data,
            Choices(**choices),
            test_size=test_size,
            encoder=encoder,
            overrides=overrides,
            report=_to_stderr,
            progress=progress,
        )
    console = Console()
    _show_guesses(project, console)
    _show(project.inspection, console)
    if project.inspection.refused:
        console.print(describe_refusal(project.inspection), soft_wrap=True)
        sys.exit(exit_status.USAGE)
    if project.skipped_file:
        console.print(f"skipped rows: {project.skipped_file}", soft_wrap=True)
    from pipeline.onboarding.create import RECIPE_FILE

    run = command("run", "--config", project.folder / RECIPE_FILE)
    console.print(f"{project.folder} is written. Next:\n  {run}", soft_wrap=True)


@click.command("inspect-data")
@click.argument("path", required=False)
@options.config_option(
    "Recipe that names the data and the task; without it, the task is guessed."
)
@_choices
@options.ENCODER
@options.JSON
@options.SET
def inspect_command(
    path: str | None,
    config_file: Path | None,
    encoder: str | None,
    as_json: bool,
    overrides: dict[str, Any],
    test_size: float | None,
    **choices: Any,
) -> None:
    """Describe the data at PATH, and show what a run would refuse or warn about.

    PATH is a file or a directory of splits; by default the data of --config. Exits with
    status 2 only if a run would refuse the data.
    """
    terminal, guessed = Console(), None
    if config_file is not None:
        given = {**choices, "test_size": test_size}
        chosen = [name for name, value in given.items() if value]
        if chosen:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in chosen)
            settings = ", ".join(_SETTINGS[name] for name in chosen)
            raise UsageError(
                got=f"{names} cannot be combined with --config; set {settings} with --set",
                name="E-options-conflict",
            )
        options.override_sources(overrides, path, encoder)
        config = recipe.load_config(config_file, overrides)
        environment.set_up(quiet=True)
        from pipeline.onboarding.recipe_data import inspect_recipe

        with environment.collecting_rarely(), _progress() as progress:
            result = inspect_recipe(config, _to_stderr, progress)
    elif path is None:
        raise UsageError(got="give PATH or --config FILE", name="E-option-missing")
    else:
        from pipeline.api.recipes import inspect_project

        environment.set_up(quiet=True)
        with _progress() as progress:
            project = inspect_project(
                path,
                Choices(**choices),
                test_size=test_size,
                encoder=encoder,
                overrides=overrides,
                report=_to_stderr,
                progress=progress,
            )
        if not as_json:
            _show_guesses(project, terminal)
        guessed = project.settings.values
        result = project.inspection
    if as_json:
        content = {"guessed": guessed, **dataclasses.asdict(result)}
        print_json(content)
    else:
        _show(result, terminal)
    sys.exit(exit_status.USAGE if result.refused else exit_status.SUCCESS)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Shows the number of rows so far, if there is a terminal."""
    with Console(stderr=True).status("reading the rows") as status:
        yield lambda rows: status.update(f"{wording.count(rows, 'row')} inspected")


def _to_stderr(line: str) -> None:
    click.echo(line, err=True)


def _show_guesses(project: Project, console: Console) -> None:
    table = Table(Column("setting", no_wrap=True), "value", "why")
    for key, value, reason in project.settings.table():
        table.add_row(key, value, reason)
    console.print(table)


def _show(inspection: Inspection, console: Console) -> None:
    from pipeline.onboarding.inspection import bars

    columns = Table("column", "rows with a value", "values", "words")
    for column in inspection.columns:
        values = "many" if column.values is None else f"{column.values:,}"
        words = f"{column.words:.0f}" if column.words else ""
        columns.add_row(column.name, f"{column.filled:,}", values, words)
    console.print(columns)
    console.print(_splits_table(inspection))
    for label, count, bar in bars(inspection.histogram):
        console.print(f"{label:>9} tokens {count:>9,} {bar}")
    for name, split in inspection.splits.items():
        if split.rows:
            for kind, row in (("shortest", split.shortest), ("longest", split.longest)):
                console.print(f"{name}, {kind}: {row}", soft_wrap=True)
    lines = [
        (
            inspection.contradictions,
            "rows with the same texts as another row but a different label",
        ),
        *(
            (count, "rows of {} with the texts of rows of {}".format(*pair.split(", ")))
            for pair, count in inspection.shared.items()
        ),
        *((count, f"rows with {kind}") for kind, count in inspection.odd.items()),
    ]
    for count, what in lines:
        if count:
            console.print(f"{count:,} {what}")
    for style, kind, texts in (
        ("yellow", "warning", inspection.warnings),
        ("red", "refused", inspection.refused),
    ):
        for text in texts:
            line = f"{kind}: {text}"
            console.print(line, soft_wrap=True, style=style)


def _splits_table(inspection: Inspection) -> Table:
    """Returns a column for each split."""
    splits = inspection.splits
    table = Table("", *splits)
    for name, what in (
        ("good rows", "rows"),
        ("bad rows", "bad"),
        ("duplicates", "duplicates"),
        ("nearly empty", "near_empty"),
    ):
        values = (f"{getattr(split, what):,}" for split in splits.values())
        table.add_row(name, *values)
    labels = list(next(iter(splits.values())).labels)
    for label in labels[:_LABELS_SHOWN]:
        table.add_row(
            f"class {label}",
            *(
                f"{split.labels.get(label, 0):,} "
                f"({split.labels.get(label, 0) / max(split.rows, 1):.0%})"
                for split in splits.values()
            ),
        )
    if len(labels) > _LABELS_SHOWN:
        table.add_row(
            wording.count(len(labels) - _LABELS_SHOWN, "more class", "more classes")
        )
    if any(split.unlabelled for split in splits.values()):
        values = (
            f"{split.unlabelled:,} ({split.unlabelled / max(split.rows, 1):.0%})"
            for split in splits.values()
        )
        table.add_row("no label", *values)
    for quantile in ("median", "p95", "max"):
        values = (str(split.lengths.get(quantile, "")) for split in splits.values())
        table.add_row(f"tokens, {quantile}", *values)
    for name, shown in (
        ("unknown tokens", lambda split: f"{split.unknown_share:.1%}"),
        ("tokens per word", lambda split: f"{split.tokens_per_word:.1f}"),
    ):
        table.add_row(name, *map(shown, splits.values()))
    cut = (f"{split.cut:,}" for split in splits.values())
    table.add_row(f"over {inspection.max_seq_length} tokens", *cut)
    return table
