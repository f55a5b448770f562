"""Measures the time of a run without the steps of its training, by component.

    python -m benchmarks.pipeline_cost --config RECIPE
    python -m benchmarks.pipeline_cost --tree before=../main --tree after=. --rounds 3

The training has two steps only. Each round runs `python -m pipeline run` into a new
directory, and again with everything in TFX's cache. Several checkouts (`--tree`) run in
turn. Prints a table in Markdown.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from benchmarks import rounds
from benchmarks.peer import Figures
from modules import environment
from pipeline import exit_status
from pipeline.config.paths import DEFAULT_CONFIG, REPOSITORY, OutputPaths
from pipeline.config.recipe import load_config
from report.run_metadata import MetadataReader

TOTAL, REST = "all", "start, report and end"
NEW, CACHED = "a new run", "the same run, cached"
TWO_STEPS = ("trainer.epochs=1", "trainer.steps_per_epoch=2")


def measure(
    checkouts: Sequence[tuple[str, Path]],
    config: Path,
    settings: Sequence[str],
    count: int,
) -> dict[str, dict[str, list[Figures]]]:
    """Runs the pipeline of checkouts in turn, each without and then with its cache.

    Args:
      checkouts: Names and directories.
      config: The recipe.
      settings: Overrides, as for `pipeline run --set`.
      count: Number of rounds.

    Returns:
      For `NEW` and `CACHED` the figures of each round by the checkout's name.
    """
    results: dict[str, dict[str, list[Figures]]] = {NEW: {}, CACHED: {}}
    for number in range(count):
        for name, tree in rounds.in_turn(checkouts, number):
            with tempfile.TemporaryDirectory() as output:
                for figures in results.values():
                    measured = run(tree, Path(output), config, settings)
                    figures.setdefault(name, []).append(measured)
    return results


def run(tree: Path, output: Path, config: Path, settings: Sequence[str]) -> Figures:
    """Runs the pipeline of a checkout.

    Args:
      tree: The checkout.
      output: The output directory of the run.
      config: The recipe.
      settings: Overrides, as for `pipeline run --set`.

    Returns:
      Seconds of each component, `REST` and `TOTAL`.

    Raises:
      PeerError: The run failed.
    """
    command = [sys.executable, "-m", "pipeline", "run", "--output", str(output)]
    command += ["--config", str(config)]
    command += itertools.chain.from_iterable(("--set", text) for text in settings)
    started = time.perf_counter()
    finished = subprocess.run(
        command,
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    total = time.perf_counter() - started
    # Whether the Evaluator blesses the model does not matter here.
    if finished.returncode not in (exit_status.SUCCESS, exit_status.REFUSED):
        raise rounds.PeerError(
            f"the run in {tree} ended with {finished.returncode}:\n"
            f"{finished.stdout[-3000:]}"
        )
    paths = OutputPaths(output, load_config(config).name)
    components = MetadataReader.of_file(paths.metadata).latest_run()
    seconds = {component.name: component.seconds for component, _ in components}
    return {**seconds, REST: total - sum(seconds.values()), TOTAL: total}


def to_markdown(results: Mapping[str, Sequence[Figures]]) -> str:
    """Returns a table of seconds: a line for each part, a column for each run.

    Args:
      results: The figures of the rounds by run; ratios are to the first run.
    """
    first, *others = results.values()
    lines = []
    for part in first[0]:
        cells = [rounds.spread(figures, part).format(1) for figures in results.values()]
        lines.append([part, *cells])
    ratios = [rounds.ratio(figures, first, TOTAL).format(3) for figures in others]
    lines.append(["of the first", "", *ratios])
    return rounds.table(["seconds", *results], lines)


@click.command(help=__doc__)
@click.option("--config", type=Path, default=DEFAULT_CONFIG)
@click.option(
    "--set",
    "settings",
    multiple=True,
    help="Override a setting, as for `pipeline run`.",
)
@click.option("--tree", "trees", multiple=True, default=[f"here={REPOSITORY}"])
@click.option("--rounds", "count", type=int, default=1, show_default=True)
def main(
    config: Path, settings: tuple[str, ...], trees: tuple[str, ...], count: int
) -> None:
    """Measures, and prints the tables."""
    environment.set_up(quiet=True)
    checkouts = []
    for text in trees:
        name, separator, directory = text.partition("=")
        if not separator or not (Path(directory) / "pipeline").is_dir():
            raise click.BadParameter(
                f"{text!r} is not NAME=DIRECTORY of a checkout", param_hint="--tree"
            )
        checkouts.append((name, Path(directory).absolute()))
    results = measure(checkouts, config.absolute(), (*settings, *TWO_STEPS), count)
    print(rounds.describe_machine())
    for state, figures in results.items():
        print(f"\n{state}\n\n{to_markdown(figures)}")


if __name__ == "__main__":
    main()
