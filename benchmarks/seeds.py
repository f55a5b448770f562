"""Measures the model of a recipe over several seeds, with what is fitted to each.

    python -m benchmarks.seeds OUTPUT --config configs/mrpc_minilm.yaml --data MRPC

Runs the pipeline from each seed, in a directory of its own in OUTPUT, and reads what
the Trainer recorded: the metrics of each split, the calibration without and with the
temperature, the metrics without and with the threshold of `task.decision`, and the
accuracy of the rows that a least probability leaves. Prints a table in Markdown: mean,
lowest and highest of the seeds, and the number of seeds whose figure is higher with it.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import rounds
from benchmarks.first_step import newest_artifact
from contracts.storage import files, uris
from contracts.task import abstention
from contracts.task.definition import TaskConfig
from modules.evaluation import prediction_files
from modules.training.model_run import METRICS_FILE
from pipeline import exit_status
from pipeline.config.recipe import load_config, parse_override

_LEAST_PROBABILITIES = (0.6, 0.7, 0.8, 0.9)
# Without and with what is fitted; one of them is None if there is nothing to compare.
Figures = dict[tuple[str, str], tuple[float | None, float]]


def measure(task: TaskConfig, model_run: str) -> Figures:
    """Returns the figures of a training, by split and name.

    Args:
      task: The task of the recipe.
      model_run: The Trainer's `ModelRun`.
    """
    record: dict[str, Any] = files.read_record(uris.join(model_run, METRICS_FILE)) or {}
    figures: Figures = {}
    decision, scaling = record["decision"], record["calibration"]
    for split, metrics in record["splits"].items():
        for name in dict.fromkeys(["accuracy", task.metric]):
            before = decision and decision["default"][split]["metrics"].get(name)
            figures[split, name] = before, metrics[name]
        if scaling:
            for name, after in scaling["after"][split].items():
                figures[split, name] = scaling["before"][split][name], after
        recorded = prediction_files.read_predictions(model_run, task, split)
        _, labels, outputs, classes = recorded
        for least in _LEAST_PROBABILITIES:
            point = abstention.measure(labels, outputs, classes, least)
            share = 1 - point.abstained / len(labels)
            figures[split, f"share of rows from {least}"] = None, share
            figures[split, f"their accuracy from {least}"] = None, point.accuracy
        if decision:
            figures[split, "threshold"] = 0.5, decision["threshold"]
        if scaling:
            figures[split, "temperature"] = 1.0, scaling["temperature"]
    return figures


def table(results: Sequence[Figures]) -> str:
    """Returns the table of the results of `measure`, a line for each figure."""
    lines = []
    for split, name in results[0]:
        pairs = [figures[split, name] for figures in results]
        with_ = [after for _, after in pairs]
        without = [before for before, _ in pairs if before is not None]
        higher = sum(a > b for b, a in pairs if b is not None)
        lines.append(
            [
                split,
                name,
                _spread(without) if without else "",
                _spread(with_),
                f"{higher} of {len(without)}" if without else "",
            ]
        )
    return rounds.table(["split", "figure", "without", "with", "higher"], lines)


def _spread(values: list[float]) -> str:
    # A least probability may leave no row of a seed.
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return ""
    return f"{statistics.mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


@click.command(help=__doc__)
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--config", "recipe", required=True, help="The recipe.")
@click.option("--data", help="As for `pipeline run`.")
@click.option("--set", "settings", multiple=True, help="As for `pipeline run`.")
@click.option("--seeds", "count", default=5, show_default=True, type=click.IntRange(1))
def main(
    output: Path, recipe: str, data: str | None, settings: Sequence[str], count: int
) -> None:
    """Runs the pipeline from each seed, and prints the table."""
    task = load_config(Path(recipe), dict(map(parse_override, settings))).task
    if task.label_kind.noun != "class":
        raise click.UsageError(
            f"--config {recipe}: the task must predict one class of a row"
        )
    if output.exists():
        raise click.UsageError(
            f"OUTPUT {output} exists; name a new directory, or delete it"
        )
    results = []
    for seed in range(count):
        directory = output / f"seed-{seed}"
        command = ["run", "--config", recipe, "--output", str(directory)]
        command += ["--data", data] if data else []
        for setting in [*settings, f"trainer.seed={seed}"]:
            command += ["--set", setting]
        command = [sys.executable, "-m", "pipeline", *command]
        status = subprocess.run(command, check=False).returncode
        # A refused model has its records, too.
        if status not in (exit_status.SUCCESS, exit_status.REFUSED):
            raise click.ClickException(
                f"the run of seed {seed} failed with exit status {status}; see above"
            )
        model_run = newest_artifact(directory, "Trainer", "model_run")
        results.append(measure(task, model_run))
    print(f"{rounds.describe_machine()}\n")
    print(table(results))


if __name__ == "__main__":
    main()
