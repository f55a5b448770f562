"""Options of several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pipeline.cli import completion
from pipeline.config import recipe
from pipeline.config.errors import UsageError
from pipeline.config.paths import DEFAULT_CONFIG, OutputPaths

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
RUNS = click.option(
    "--output",
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="Output directory of the runs. Default: the recipe's.",
)
HOST = click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 listens on all of them.",
)
ALLOWED_HOSTS = click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="HOST",
    help="Further host that HTTP requests may name and browsers' pages may come from; "
    "*.example.com allows all subdomains. Repeatable.",
)
RECIPE = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    shell_complete=completion.complete_recipe,
    help="Recipe of the runs. Default: configs/sample.yaml, or any with --output.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")


def find_output(config_file: Path | None, output: str | None) -> OutputPaths:
    """Returns the output directory that `--config` and `--output` name.

    The name is empty if several recipes push from the directory and none is named.

    Raises:
      UsageError: It does not exist.
    """
    if output is None or config_file is not None:
        config = recipe.load_config(config_file or DEFAULT_CONFIG)
        paths = OutputPaths.of(config)
        if output is not None:
            paths = OutputPaths.at(output, config.name)
    else:
        from pipeline.history.pushed_versions import recipe_names

        paths = OutputPaths.at(output, "")
        names = recipe_names(paths.root)
        if len(names) == 1:
            paths = OutputPaths.at(output, names[0])
    if not paths.root.is_dir():
        raise UsageError(
            f"output {paths.root} does not exist; name the directory of the runs with "
            "--output DIR, or their recipe with --config FILE"
        )
    return paths


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
