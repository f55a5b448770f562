"""The command that writes a pushed model for another runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.table import Table

from contracts import wording
from modules import environment
from pipeline.cli import completion
from pipeline.console import Console

if TYPE_CHECKING:
    from prediction.export.folders import Format


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
    type=click.Choice(["huggingface", "onnx"]),
    required=True,
    help="A folder for Hugging Face's Transformers, or for bert-runtime.",
)
@click.option(
    "--output",
    "destination",
    required=True,
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="A new directory.",
)
@click.option(
    "--int8",
    "is_int8",
    is_flag=True,
    help="Also write an ONNX file with weights in int8; needs --examples.",
)
@click.option(
    "--examples",
    metavar="FILES",
    help="TFRecords of labelled Examples, such as those of the split `test`, on which "
    "ONNX Runtime is compared with the model. A glob in quotes.",
)
@click.option(
    "--label-column",
    default="label",
    help="The label in --examples: task.label_column.",
)
def export_command(
    model: str,
    target_format: Format,
    destination: str,
    is_int8: bool,
    examples: str | None,
    label_column: str,
) -> None:
    """Write a pushed model for another runtime.

    The new directory also has the tokenizer, and a README that describes how to use it
    (docs/export.md).
    """
    environment.set_up(quiet=True)
    from prediction.export import folders

    evaluation = folders.export(
        model,
        destination,
        click.echo,
        target_format=target_format,
        is_int8=is_int8,
        examples=examples,
        label_column=label_column,
    )
    if evaluation is None:
        return
    table = Table(wording.count(evaluation.rows, "row"), *evaluation.values)
    for metric in evaluation.values["served"]:
        if "/" not in metric:
            values = (row[metric] for row in evaluation.values.values())
            table.add_row(metric, *(f"{value:.4f}" for value in values))
    for title, cells in evaluation.describe_differences():
        table.add_row(title, "", *cells)
    Console().print(table)
