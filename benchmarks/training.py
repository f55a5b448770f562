"""How fast training is: ours, the tutorials' and Transformers', on the same rows.

    python -m benchmarks.training --data DIR

The training split, MiniLM's weights, batches of 32, two threads. All get ready and
take 5 steps first; then each takes a part of an epoch in every round, which together
make one epoch. Prints a table in Markdown.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import click

from benchmarks import peer_environment, rounds
from benchmarks.rounds import Peer
from modules import environment
from pipeline.config.paths import DEFAULT_CONFIG, REPOSITORY

CONFIG = REPOSITORY / "configs" / "mrpc_minilm.yaml"
WARMUP_STEPS = 5
SHORT_STEPS = 3
OURS = "ours"


@click.command(help=__doc__)
@click.option(
    "--data", help="MRPC: a directory of TSV splits.  [default: the sample's pairs]"
)
@click.option("--rounds", "count", default=5, show_default=True)
@click.option("--short", is_flag=True, help="A few steps a round, not an epoch in all.")
def main(data: str | None, count: int, short: bool) -> None:
    """Measures, and prints the table."""
    environment.set_up(quiet=True)
    from benchmarks import tokenized
    from pipeline.config.recipe import load_config
    from pipeline.inputs.encoder_source import resolve_encoder

    data = data or load_config(DEFAULT_CONFIG).data.source
    config = load_config(CONFIG, {"data.source": data})
    encoder = resolve_encoder(config)
    batch_size = config.trainer.batch_size
    with tempfile.TemporaryDirectory() as directory:
        rows = tokenized.write_train_split(config, encoder.directory, Path(directory))
        epoch = math.ceil(rows / batch_size)
        settings = {
            "config": str(CONFIG),
            "encoder": encoder.directory,
            "records": f"{directory}/{tokenized.RECORDS}",
            "arrays": f"{directory}/{tokenized.ARRAYS}",
            "batch_size": batch_size,
            "learning_rate": config.trainer.learning_rate,
            "steps": SHORT_STEPS if short else math.ceil(epoch / count),
            "warmup": WARMUP_STEPS,
            "rounds": count,
            "threads": rounds.THREADS,
        }
        results = rounds.run_rounds(peers(settings), count)
    print(f"{rounds.describe_machine()}; {settings['steps']} steps a round\n")
    print(throughput(results))
    print()
    print(machine_share(results))


def peers(settings: rounds.Settings) -> list[Peer]:
    """Returns what is measured.

    Args:
      settings: What all are given.
    """
    tutorial = "tutorial_training.py"
    transformers = "transformers_training.py"
    python = peer_environment.build()
    return [
        Peer(OURS, "ours_training.py", settings),
        Peer("tutorial: Orbit, padded to 128", tutorial, settings | {"loop": "orbit"}),
        Peer("Keras `fit`, padded to 128", tutorial, settings | {"loop": "keras"}),
        *(
            Peer(
                f"Transformers, {name}",
                transformers,
                settings | {"padding": padding},
                python,
            )
            for padding, name in (
                ("batch", "padded to the batch"),
                ("group", "grouped by length"),
                ("128", "padded to 128"),
            )
        ),
    ]


def throughput(results: dict[str, list[rounds.Figures]]) -> str:
    """Returns the table of rows a second, and of what ours are a multiple of.

    Args:
      results: What `run_rounds` returned.
    """
    figure = "rows_per_second"
    lines = [
        (
            name,
            rounds.spread(found, figure).format(1),
            rounds.ratio(results[OURS], found, figure).format(2),
        )
        for name, found in results.items()
    ]
    return rounds.table(["training", "rows/s", "ours is x times"], lines)


def machine_share(results: dict[str, list[rounds.Figures]]) -> str:
    """Returns the table of how near to the machine's own rate ours comes.

    Args:
      results: What `run_rounds` returned.
    """
    found = results[OURS]
    lines = [
        ("matrix multiplication, GFLOP/s", rounds.spread(found, "gflops").format(0)),
        ("real tokens' share of it", rounds.spread(found, "share").format(3)),
        ("real tokens/s", rounds.spread(found, "tokens_per_second").format(0)),
        ("waiting for input, of a step", rounds.spread(found, "input_share").format(4)),
    ]
    return rounds.table(["ours", "median (spread)"], lines)


if __name__ == "__main__":
    main()
