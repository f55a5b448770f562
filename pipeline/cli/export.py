"""The command that writes a pushed model for another runtime."""

from __future__ import annotations

import click

from modules import environment
from pipeline.cli import completion

HUGGING_FACE = "huggingface"


@click.command("export")
@click.option(
    "--model",
    required=True,
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="A pushed version, or a directory of versions, whose newest is taken.",
)
@click.option(
    "--format",
    "target_format",
    type=click.Choice([HUGGING_FACE]),
    required=True,
    help="A folder for Hugging Face's Transformers.",
)
@click.option(
    "--output",
    "destination",
    required=True,
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="A new directory.",
)
def export_command(model: str, target_format: str, destination: str) -> None:
    """Write a pushed model for another runtime.

    The new directory also has the tokenizer, and a README that describes how to use it
    (docs/export.md).
    """
    environment.set_up(quiet=True)
    from prediction.portable import export

    export.export(model, destination, click.echo)
