"""Options of several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pipeline.cli import completion
from pipeline.config import recipe
from pipeline.config.paths import DEFAULT_CONFIG

CONFIG = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    default=DEFAULT_CONFIG,
    show_default="configs/sample.yaml",
    shell_complete=completion.complete_recipe,
    help="Recipe: a YAML file with the settings.",
)
SET = click.option(
    "--set",
    "overrides",
    multiple=True,
    callback=lambda _, __, texts: dict(map(recipe.parse_override, texts)),
    metavar="KEY=VALUE",
    shell_complete=completion.complete_setting,
    help="Override a setting, as trainer.epochs=2. May be repeated.",
)
DATA = click.option(
    "--data",
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="TSV or TFRecord splits, or tfds:NAME.",
)
ENCODER = click.option(
    "--encoder",
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="Pre-trained encoder: a directory, package:NAME/PATH or a TF Hub handle.",
)
OUTPUT = click.option(
    "--output",
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="Directory of everything a run writes.",
)


def override_sources(
    overrides: dict[str, Any],
    data: str | None,
    encoder: str | None,
    output: str | None = None,
) -> None:
    """Adds `--data`, `--encoder` and `--output` to the overrides."""
    if data is not None:
        overrides["data.source"] = data
    if encoder is not None:
        # The recipe's checksum is that of the recipe's own encoder.
        overrides |= {"encoder.source": encoder, "encoder.sha256": None}
    if output is not None:
        overrides["output"] = output
