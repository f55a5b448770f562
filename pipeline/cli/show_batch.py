"""The command that shows what the model is trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from modules import environment
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.config.errors import UsageError

if TYPE_CHECKING:
    from modules.data.batch_view import BatchRow


@click.command("show-batch")
@options.CONFIG
@options.DATA
@options.ENCODER
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Rows of the table.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("batch.png"),
    show_default=True,
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
    """Show a batch as a training sees it: its tokens, and heat maps of its tensors.

    The rows of the training split are tokenized, shuffled and grouped by length as in a
    run; of more than 10,000 rows, the first ones. A run may draw other rows.
    """
    if not output.parent.is_dir():
        raise UsageError(f"--output {output}: there is no directory {output.parent}")
    options.override_sources(overrides, data, encoder)
    config = recipe.load_config(config_file, overrides)
    environment.set_up(quiet=True)
    from modules.data import batch_view
    from modules.report import plots
    from modules.report.content import Batch
    from pipeline.inputs.first_batch import read_first_batch

    batch, vocab_file = read_first_batch(config, click.echo)
    described = batch_view.describe_rows(batch, config.task, vocab_file)
    console = Console()
    console.print(_table(described[:rows]))
    console.print(_padding(described, config.preprocessing.max_seq_length))
    heat_maps = plots.batch_picture(Batch(**batch_view.list_features(batch)))
    heat_maps.savefig(output, format="png")
    console.print(f"heat maps: {output}", soft_wrap=True, markup=False)


def _table(rows: list[BatchRow]) -> Table:
    table = Table("id", "label", "length", "tokens", show_lines=True)
    for row in rows:
        tokens = Text(" ".join(row.tokens))
        table.add_row(str(row.id), Text(row.label), str(len(row.tokens)), tokens)
    return table


def _padding(rows: list[BatchRow], max_seq_length: int) -> str:
    lengths = [len(row.tokens) for row in rows]
    longest, tokens = max(lengths), sum(lengths)

    def share(width: int) -> str:
        return f"{1 - tokens / (width * len(rows)):.0%}"

    return (
        f"{len(rows)} rows, padded to the longest, {longest} tokens: {share(longest)} "
        f"is padding; padded to {max_seq_length}: {share(max_seq_length)}"
    )
