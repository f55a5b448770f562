"""Measures a training before its first step and after its last.

    python -m benchmarks.first_step OUTPUT --config configs/mrpc_minilm.yaml

OUTPUT is the output directory of a finished run of the recipe. A round calls `run_fn`
in a new process for two steps: as it is, and with AutoGraph converting Keras. Prints a
table of the seconds in Markdown.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks import rounds
from benchmarks.rounds import Peer
from modules import environment
from pipeline.config.recipe import load_config
from pipeline.inputs.encoder_source import resolve_encoder

_TITLES = {
    "imports": "imports, before `run_fn`",
    "first_step": "`run_fn` to the end of step 1",
    "evaluation": "evaluation",
    "export": "export",
    "predictions": "predictions",
    "run_fn": "`run_fn` in all, 2 steps",
}


@click.command(help=__doc__)
@click.argument("output", type=click.Path(exists=True, path_type=Path))
@click.option("--config", "recipe", required=True, help="The recipe of that run.")
@click.option("--rounds", "count", default=5, show_default=True)
@click.option("--short", is_flag=True, help="One round.")
def main(output: Path, recipe: str, count: int, short: bool) -> None:
    """Measures, and prints the table."""
    environment.set_up(quiet=True)
    results = rounds.run_rounds(peers(output, Path(recipe)), 1 if short else count)
    print(f"{rounds.describe_machine()}\n")
    print(table(results))


def peers(output: Path, recipe: Path) -> list[Peer]:
    """Returns the trainings to measure.

    Args:
      output: The output directory of a finished run.
      recipe: Its recipe.
    """
    settings = {
        "config": str(recipe.absolute()),
        "encoder": resolve_encoder(load_config(recipe)).directory,
        "examples": newest_artifact(output, "Transform", "transformed_examples"),
        "transform_graph": newest_artifact(output, "Transform", "transform_graph"),
    }
    return [
        Peer(name, "first_step.py", settings | {"autograph_is_kept_out": kept_out})
        for name, kept_out in (("ours", True), ("AutoGraph converts Keras", False))
    ]


def newest_artifact(output: Path, component: str, key: str) -> str:
    """Returns the directory of the newest artifact of a kind in an output directory."""
    # Beside an artifact there is the record of its files, `.1.files.json`.
    versions = (output / "artifacts" / component / key).glob("[0-9]*")
    return str(max(versions, key=lambda path: int(path.name)).absolute())


def table(results: dict[str, list[rounds.Figures]]) -> str:
    """Returns the table of the results of `run_rounds`, a line for each part."""
    lines = [
        [title, *(rounds.spread(r, figure).format(1) for r in results.values())]
        for figure, title in _TITLES.items()
    ]
    return rounds.table(["seconds", *results], lines)


if __name__ == "__main__":
    main()
