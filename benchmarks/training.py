"""Compares the speed of training: ours, the tutorials' and Transformers'.

    python -m benchmarks.training --data DIR

All train MiniLM on the same rows in batches of 32, with two threads. Each takes 5 steps
to warm up, then a part of an epoch in every round; all rounds together are one epoch.
Prints tables in Markdown.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from benchmarks import latency, peer_environment, rounds
from benchmarks.rounds import Peer
from contracts import cpu
from modules import environment
from pipeline.config.paths import DEFAULT_CONFIG, REPOSITORY
from pipeline.config.recipe import load_config
from pipeline.inputs.encoder_source import resolve_encoder

CONFIG = REPOSITORY / "configs" / "mrpc_minilm.yaml"
WARMUP_STEPS = 5
SHORT_STEPS = 3
DATA = click.option(
    "--data", help="MRPC: a directory of TSV splits.  [default: the sample's pairs]"
)
ROUNDS = click.option("--rounds", "count", default=5, show_default=True)
SHORT = click.option("--short", is_flag=True, help="3 steps a round.")
OURS = "ours"
FLOAT32, BFLOAT16 = "float32", "bfloat16"
OURS_BFLOAT16 = f"{OURS}, {BFLOAT16}"


@click.command(help=__doc__)
@DATA
@ROUNDS
@SHORT
@peer_environment.WITHOUT
def main(data: str | None, count: int, short: bool, without_pytorch: bool) -> None:
    """Measures, and prints the table."""
    environment.set_up(quiet=True)
    python = None if without_pytorch else peer_environment.build()
    steps = SHORT_STEPS if short else None
    results = measure(CONFIG, data, count, steps, functools.partial(peers, python))
    compared = [name for name in (OURS, OURS_BFLOAT16) if name in results]
    print(throughput(results, compared))
    print()
    print(machine_share(results, OURS))


def measure(
    recipe: Path,
    data: str | None,
    count: int,
    steps: int | None,
    peers: Callable[[rounds.Settings], list[Peer]],
) -> dict[str, list[rounds.Figures]]:
    """Runs trainings in turn; prints the machine.

    Args:
      recipe: Names the encoder, and the settings of the trainings.
      data: Directory of TSV splits; None for the sample's.
      count: Number of rounds.
      steps: Steps of a round. If it is None, all rounds together are one epoch.
      peers: Returns the trainings for their common settings.
    """
    # Imports TensorFlow, which takes seconds.
    from benchmarks import tokenized

    data = data or load_config(DEFAULT_CONFIG).data.source
    config = load_config(recipe, {"data.source": data})
    encoder = resolve_encoder(config)
    batch_size = config.trainer.batch_size
    with tempfile.TemporaryDirectory() as directory:
        rows = tokenized.write_train_split(config, encoder.directory, Path(directory))
        epoch = math.ceil(rows / batch_size)
        settings = {
            "config": str(recipe),
            "encoder": encoder.directory,
            "records": f"{directory}/{tokenized.RECORDS}",
            "arrays": f"{directory}/{tokenized.ARRAYS}",
            "batch_size": batch_size,
            "learning_rate": config.trainer.learning_rate,
            "length": config.preprocessing.max_seq_length,
            "steps": steps or math.ceil(epoch / count),
            "warmup": WARMUP_STEPS,
            "rounds": count,
            "threads": rounds.THREADS,
        }
        results = rounds.run_rounds(peers(settings), count)
    print(f"{rounds.describe_machine()}; {settings['steps']} steps a round\n")
    return results


def peers(python: str | None, settings: rounds.Settings) -> list[Peer]:
    """Returns the trainings to measure, all with the same settings.

    Those in bfloat16 are left out on a CPU that has no instructions for it, where
    PyTorch's autocast trains at 0.9 rows/s on two cores.

    Args:
      python: The Python that has Transformers. None leaves out its trainings.
      settings: The common settings, from `measure`.
    """
    tutorial = "tutorial_training.py"
    settings = settings | {"device": "cpu", "xla": False, "is_compiled": False}
    padded = f"padded to {settings['length']}"
    trainings = [
        Peer(OURS, "ours_training.py", settings | {"precision": FLOAT32}),
        Peer(OURS_BFLOAT16, "ours_training.py", settings | {"precision": BFLOAT16}),
        Peer(f"tutorial: Orbit, {padded}", tutorial, settings | {"loop": "orbit"}),
        Peer(f"Keras `fit`, {padded}", tutorial, settings | {"loop": "keras"}),
    ]
    if python is not None:
        trainings += [
            Peer(
                f"Transformers, {name}",
                "transformers_training.py",
                settings | {"padding": padding, "precision": precision},
                python,
            )
            for padding, precision, name in (
                ("batch", FLOAT32, "padded to the batch"),
                ("group", FLOAT32, "grouped by length"),
                ("group", BFLOAT16, "grouped by length, bfloat16 by `torch.autocast`"),
                ("longest", FLOAT32, padded),
            )
        ]
    if cpu.find_bfloat16() is not None:
        return trainings
    return [peer for peer in trainings if peer.settings.get("precision") != BFLOAT16]


def throughput(
    results: dict[str, list[rounds.Figures]], compared: Sequence[str]
) -> str:
    """Returns a table of rows/s, and the ratios of the compared trainings to them.

    Args:
      results: The figures of each training.
      compared: Trainings that are compared with all.
    """
    figure = "rows_per_second"
    lines = [
        (
            name,
            rounds.spread(figures, figure).format(1),
            *(
                rounds.ratio(results[ours], figures, figure).format(2)
                for ours in compared
            ),
        )
        for name, figures in results.items()
    ]
    return rounds.table(
        [
            "training",
            latency.ROWS_PER_SECOND,
            *(f"{name} is x times" for name in compared),
        ],
        lines,
    )


def machine_share(results: dict[str, list[rounds.Figures]], name: str) -> str:
    """Returns a table of a training's share of the machine's own rate.

    Args:
      results: The figures of each training.
      name: One of ours.
    """
    titles = {
        "gflops": ("matrix multiplication, GFLOP/s", 0),
        "share": ("real tokens' share of it", 3),
        "tokens_per_second": ("real tokens/s", 0),
        "input_share": ("waiting for input, of a step", 4),
    }
    lines = [
        (title, rounds.spread(results[name], figure).format(digits))
        for figure, (title, digits) in titles.items()
    ]
    return rounds.table([name, "median (spread)"], lines)


if __name__ == "__main__":
    main()
