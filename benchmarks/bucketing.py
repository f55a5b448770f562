"""Whether batches of pairs of like length cost quality: seeds with them and without.

    python -m benchmarks.bucketing OUTPUT --config configs/mrpc_minilm.yaml --work DIR

OUTPUT is the directory of a finished run of the recipe, whose rows are trained on. With
a window of 16 batches, as a training has it, and with one of 1, which pads each batch
as it was drawn. A training that DIR holds already is not repeated, so that what was
stopped goes on. Prints a table in Markdown: the best evaluation of each seed.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
from pathlib import Path

import click

from benchmarks import rounds
from benchmarks.finished_run import newest_artifact
from modules import environment

WINDOWS = (16, 1)


@click.command(help=__doc__)
@click.argument("output", type=click.Path(exists=True, path_type=Path))
@click.option("--config", "recipe", required=True, help="The recipe of that run.")
@click.option("--work", required=True, type=click.Path(path_type=Path))
@click.option("--seeds", default=5, show_default=True)
def main(output: Path, recipe: str, work: Path, seeds: int) -> None:
    """Trains, and prints the table."""
    environment.set_up(quiet=True)
    environment.set_up()
    import tensorflow as tf

    from modules.training import experiment, run_fn
    from pipeline.config.recipe import load_config
    from pipeline.inputs.encoder_source import resolve_encoder

    config = load_config(recipe)
    examples = newest_artifact(output, "Transform", "transformed_examples")
    splits = (experiment.TRAIN_SPLIT, experiment.EVAL_SPLIT)
    strategy = tf.distribute.get_strategy()
    params = experiment.build_experiment(
        config.task,
        config.trainer,
        encoder=resolve_encoder(config).directory,
        max_seq_length=config.preprocessing.max_seq_length,
        splits={split: [f"{examples}/Split-{split}/*"] for split in splits},
        strategy=strategy,
    )
    found: dict[int, list[float]] = {window: [] for window in WINDOWS}
    for seed in range(seeds):
        for window in WINDOWS:
            seeded = experiment.with_seed(params, seed)
            seeded.task.train_data.window_batches = window
            directory = str(work / f"window-{window}" / f"seed-{seed}")
            with contextlib.redirect_stdout(sys.stderr):  # Orbit prints its steps
                result = run_fn.train(config.task, seeded, strategy, directory)
            found[window].append(result.metrics[config.task.metric])
    print(f"{rounds.describe_machine()}\n")
    print(table(found, config.task.metric))


def table(found: dict[int, list[float]], metric: str) -> str:
    """Returns the table, a line for each window.

    Args:
      found: The deciding metric of each seed, by the window's batches.
      metric: Its name.
    """
    seeds = range(len(next(iter(found.values()))))
    head = [f"window, {metric} of seed", *map(str, seeds), "mean"]
    lines = [
        [
            f"{window} batches",
            *(f"{value:.4f}" for value in values),
            f"{statistics.mean(values):.4f}",
        ]
        for window, values in found.items()
    ]
    return rounds.table(head, lines)


if __name__ == "__main__":
    main()
