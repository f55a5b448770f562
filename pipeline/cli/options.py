"""Options of several commands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bert_runtime.cli.options import FloatRange as FloatRange
from bert_runtime.cli.options import allowed as allowed
from contracts.errors import UsageError
from pipeline.api.arguments import check_output
from pipeline.cli import completion
from pipeline.config import recipe
from pipeline.config.paths import DEFAULT_CONFIG, REPOSITORY, OutputPaths

_Decorator = Callable[[Any], Any]
# Settings that an option of many commands overrides.
OVERRIDING = {"data.source": "data", "encoder.source": "encoder", "output": "output"}
_SAMPLE = str(DEFAULT_CONFIG.relative_to(REPOSITORY))


class NewFile(click.Path):
    """A file to write, in a directory that exists."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Returns the path."""
        path: Any = super().convert(value, param, ctx)
        if not path.parent.is_dir():
            raise UsageError(
                param.name if param else None,
                f"{path}: there is no directory {path.parent}",
                advice="create it, or name a file in another directory",
                name="E-no-such-directory",
            )
        return path


def config_option(description: str, default: Path | None = None) -> _Decorator:
    """Returns the option `--config`."""
    return click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path),
        shell_complete=completion.complete_recipe,
        help=description,
        default=default,
        show_default=_SAMPLE if default else False,
    )


def output_option(description: str, **attributes: Any) -> _Decorator:
    """Returns the option `--output`, an output directory of runs."""
    return click.option(
        "--output",
        metavar="DIR",
        shell_complete=completion.complete_path,
        help=description,
        **attributes,
    )


CONFIG = config_option("Recipe: a YAML file with the settings.", DEFAULT_CONFIG)
RUNS_CONFIG = config_option(
    f"Recipe of the runs. Default: {_SAMPLE}, or any with --output."
)
OUTPUT = output_option("Directory of everything a run writes.")
RUNS_OUTPUT = output_option("Output directory of the runs. Default: the recipe's.")
SET = click.option(
    "--set",
    "overrides",
    multiple=True,
    callback=lambda _, __, texts: dict(map(recipe.parse_override, texts)),
    metavar="KEY=VALUE",
    shell_complete=completion.complete_setting,
    help="Override a setting, such as trainer.epochs=2. Repeatable.",
)
DATA = click.option(
    "--data",
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="Data: a file, a directory of splits, or tfds:NAME.",
)
ENCODER = click.option(
    "--encoder",
    metavar="DIR",
    shell_complete=completion.complete_path,
    help="Pre-trained encoder: a directory, package:NAME/PATH or a TF Hub handle.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")


def output_paths(config_file: Path | None, output: str | None) -> OutputPaths:
    """Returns the paths of the output directory of `--config` and `--output`.

    The name is empty without a recipe.
    """
    if output is None or config_file is not None:
        config = recipe.load_config(config_file or DEFAULT_CONFIG, is_past=True)
        if output is None:
            return OutputPaths.of(config)
        return OutputPaths.at(output, config.name)
    return OutputPaths.at(output, "")


def of_runs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--output` and `--config` to a command, which gets them as `paths`.

    A directory that does not exist is refused.
    """

    @RUNS_OUTPUT
    @RUNS_CONFIG
    @functools.wraps(function)
    def command(*, output: str | None, config_file: Path | None, **others: Any) -> None:
        paths = check_output(output_paths(config_file, output))
        function(paths=paths, **others)

    return command


def override_sources(
    overrides: dict[str, Any],
    data: str | None,
    encoder: str | None,
    output: str | None = None,
) -> None:
    """Adds `--data`, `--encoder` and `--output` to the overrides."""
    values = zip(OVERRIDING, (data, encoder, output), strict=True)
    overrides |= {key: value for key, value in values if value is not None}
    if encoder is not None:
        # The recipe's checksum belongs to the recipe's own encoder.
        overrides["encoder.sha256"] = None
