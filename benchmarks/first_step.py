"""How long a training takes before its first step, and after its last.

    python -m benchmarks.first_step OUTPUT --config configs/mrpc_minilm.yaml

OUTPUT is the directory of a finished run of the same recipe. A round calls `run_fn` in
a new process, with the two steps that it takes, as it is and without AutoGraph kept out
of Keras. Prints a table in Markdown, in seconds.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks import rounds
from benchmarks.finished_run import newest_artifact
from benchmarks.rounds import Peer
from modules import environment

_SHOWN = {
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
    from pipeline.config.recipe import load_config
    from pipeline.inputs.encoder_source import resolve_encoder

    settings = {
        "config": str(Path(recipe).absolute()),
        "encoder": resolve_encoder(load_config(recipe)).directory,
        "examples": newest_artifact(output, "Transform", "transformed_examples"),
        "transform_graph": newest_artifact(output, "Transform", "transform_graph"),
    }
    peers = [
        Peer(name, "first_step.py", settings | {"autograph_is_kept_out": kept_out})
        for name, kept_out in (("ours", True), ("AutoGraph as it comes", False))
    ]
    results = rounds.run_rounds(peers, 1 if short else count)
    print(f"{rounds.describe_machine()}\n")
    print(table(results))


def table(results: dict[str, list[rounds.Figures]]) -> str:
    """Returns the table, a line for each part.

    Args:
      results: What `run_rounds` returned.
    """
    lines = [
        [shown, *(rounds.spread(found, figure).format(1) for found in results.values())]
        for figure, shown in _SHOWN.items()
    ]
    return rounds.table(["seconds", *results], lines)


if __name__ == "__main__":
    main()
