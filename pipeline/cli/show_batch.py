"""The command that shows a training batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from contracts import wording
from ingest import output_directory
from modules import environment
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.console import Console
from pipeline.inputs.first_batch import read_first_batch
from report.content import Batch


@click.command("show-batch")
@options.CONFIG
@options.DATA
@options.ENCODER
@click.option(
    "--rows", type=click.IntRange(min=1), default=5, help="Rows of the table."
)
@click.option(
    "--output",
    type=options.NewFile(),
    default=Path("batch.png"),
    help="Picture of the batch (PNG), which is replaced if it exists.",
)
@options.SET
def show_batch_command(
    config_file: Path,
    data: str | None,
    encoder: str | None,
    rows: int,
    output: Path,
    overrides: dict[str, Any],
) -> None:
    """Show a training batch: its tokens, and heat maps of its tensors.

    At most the first 10,000 rows of the training split are tokenized, shuffled and
    grouped by length as in a run. A run may draw other rows.
    """
    output_directory.make_for_file(output, "output")
    options.override_sources(overrides, data, encoder)
    config = recipe.load_config(config_file, overrides)
    environment.set_up(quiet=True)
    from modules.training import model_run
    from report import plots

    batch, vocab_file = read_first_batch(config, click.echo)
    described = model_run.describe_rows(batch, config.task, vocab_file)
    table = Table("id", "label", "length", "tokens", show_lines=True)
    for row in described[:rows]:
        tokens = Text(" ".join(row.tokens))
        table.add_row(str(row.id), Text(row.label), str(len(row.tokens)), tokens)
    console = Console()
    console.print(table)
    lengths = [len(row.tokens) for row in described]
    longest, limit = max(lengths), config.preprocessing.most_tokens
    to_longest, to_limit = (
        f"{1 - sum(lengths) / (width * len(lengths)):.0%}" for width in (longest, limit)
    )
    console.print(
        f"{wording.count(len(lengths), 'row')}, padded to the longest, "
        f"{wording.count(longest, 'token')}: {to_longest} "
        f"is padding; padded to {limit}: {to_limit}"
    )
    heat_maps = plots.batch_picture(Batch(**model_run.list_features(batch)))
    heat_maps.savefig(output, format="png")
    console.print(f"heat maps: {output}", soft_wrap=True)
