"""Options of several commands."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.config import recipe
from pipeline.config.paths import DEFAULT_CONFIG

CONFIG = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    default=DEFAULT_CONFIG,
    show_default="configs/sample.yaml",
    help="Recipe: a YAML file with the settings.",
)
SET = click.option(
    "--set",
    "overrides",
    multiple=True,
    callback=lambda _, __, texts: dict(map(recipe.parse_override, texts)),
    metavar="KEY=VALUE",
    help="Override a setting, as trainer.epochs=2. May be repeated.",
)
