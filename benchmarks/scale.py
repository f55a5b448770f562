"""How training grows with the encoder, and its input with the rows.

    python -m benchmarks.scale --data MRPC --rows 10000 --rows 100000 --rows 1000000

Encoders of three sizes with random weights train on the same batches, in turn; what
each takes is compared with its operations. Then rows are read and batched, as many as
asked, without a training: kept in memory, and read anew each epoch. Prints two tables
in Markdown; `benchmarks/projection.py` is what follows from them.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import click

from benchmarks import rounds
from benchmarks.evaluation_memory import write_encoder
from benchmarks.projection import ENCODERS, Encoder
from benchmarks.rounds import Peer
from modules import environment
from pipeline.config.paths import DEFAULT_CONFIG, REPOSITORY

CONFIG = REPOSITORY / "configs" / "mrpc_minilm.yaml"
IN_MEMORY, ANEW = "in memory", "read anew"
HEADS = {"bert-tiny": 2, "minilm": 12, "bert-base": 12}
_WARMUP_STEPS, _STEPS, _SHORT_STEPS = 2, 8, 2
_SHORT_ROWS = (1_000,)


@click.command(help=__doc__)
@click.option(
    "--data", help="MRPC: a directory of TSV splits.  [default: the sample's pairs]"
)
@click.option("--rows", "counts", multiple=True, type=int, default=[10_000])
@click.option("--rounds", "count", default=5, show_default=True)
@click.option("--short", is_flag=True, help="One round of few steps, 1,000 rows.")
def main(data: str | None, counts: tuple[int, ...], count: int, short: bool) -> None:
    """Measures, and prints the tables."""
    environment.set_up(quiet=True)
    from benchmarks import tokenized
    from pipeline.config.recipe import load_config
    from pipeline.inputs.encoder_source import resolve_encoder

    data = data or load_config(DEFAULT_CONFIG).data.source
    config = load_config(CONFIG, {"data.source": data})
    encoder = resolve_encoder(config)
    if short:
        counts, count = _SHORT_ROWS, 1
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        tokenized.write_train_split(config, encoder.directory, directory)
        records = directory / tokenized.RECORDS
        words = Path(encoder.vocab_file).read_text(encoding="utf-8").splitlines()
        settings = {
            "config": str(CONFIG),
            "records": str(records),
            "steps": _SHORT_STEPS if short else _STEPS,
            "warmup": _WARMUP_STEPS,
            "rounds": count,
        }
        trained = rounds.run_rounds(
            encoder_peers(directory, words, settings), rounds=count
        )
        read = rounds.run_rounds(
            input_peers(records, counts, config.trainer.batch_size), rounds=count
        )
    print(f"{rounds.describe_machine()}\n")
    print(encoders_table(trained))
    print()
    print(input_table(read))


def encoder_peers(
    directory: Path, words: list[str], settings: rounds.Settings
) -> list[Peer]:
    """Writes an encoder of each size, and returns their trainings.

    Args:
      directory: Gets a folder for each.
      words: The vocabulary.
      settings: What all trainings are given.
    """
    peers = []
    for name, heads in HEADS.items():
        size = ENCODERS[name]
        write_encoder(
            directory / name,
            words,
            hidden_size=size.hidden,
            num_hidden_layers=size.layers,
            num_attention_heads=heads,
            intermediate_size=4 * size.hidden,
        )
        encoder = {"encoder": str(directory / name)}
        peers.append(Peer(name, "ours_training.py", settings | encoder))
    return peers


def input_peers(records: Path, counts: tuple[int, ...], batch_size: int) -> list[Peer]:
    """Writes files of so many rows, and returns what reads them.

    Args:
      records: A file of TFRecords, whose rows are repeated.
      counts: How many are wanted.
      batch_size: Rows of a batch.
    """
    peers = []
    for count in counts:
        path = records.with_name(f"{count}.gz")
        repeat_records(records, path, count)
        for name, buffer in ((IN_MEMORY, count), (ANEW, min(count // 2, 100_000))):
            settings = {
                "records": str(path),
                "batch_size": batch_size,
                "shuffle_buffer_size": buffer,
            }
            peers.append(Peer(f"{count:,} {name}", "input_rows.py", settings))
    return peers


def repeat_records(source: Path, path: Path, count: int) -> None:
    """Writes TFRecords again and again.

    Args:
      source: Gzipped TFRecords.
      path: The new file.
      count: How many it gets.
    """
    import tensorflow as tf

    records = tf.data.TFRecordDataset(str(source), "GZIP").as_numpy_iterator()
    with tf.io.TFRecordWriter(str(path), options="GZIP") as writer:
        for record in itertools.islice(itertools.cycle(records), count):
            writer.write(record)


def encoders_table(results: dict[str, list[rounds.Figures]]) -> str:
    """Returns the table of encoders: what a row costs, measured and by the law.

    Args:
      results: What `run_rounds` returned.
    """
    figure = "seconds_per_token"
    by_token = {
        name: [{figure: 1 / round_["tokens_per_second"]} for round_ in found]
        for name, found in results.items()
    }
    lines = []
    for name, found in results.items():
        law = ENCODERS[name].parameters / ENCODERS["minilm"].parameters
        lines.append(
            [
                _describe(name, ENCODERS[name]),
                rounds.spread(found, "rows_per_second").format(1),
                rounds.ratio(by_token[name], by_token["minilm"], figure).format(2),
                f"{law:.2f}",
                rounds.spread(found, "share").format(2),
            ]
        )
    head = ["encoder", "rows/s", "a token's time ÷ MiniLM's", "parameters ÷ MiniLM's"]
    return rounds.table([*head, "share of matrix multiplication"], lines)


def _describe(name: str, size: Encoder) -> str:
    return f"{name}: {size.layers} x {size.hidden}, {size.parameters / 1e6:.1f} million"


def input_table(results: dict[str, list[rounds.Figures]]) -> str:
    """Returns the table of input: seconds, rows a second, memory.

    Args:
      results: What `run_rounds` returned.
    """
    digits = {"count": 1, "first_batch": 1, "rows_per_second": 0, "above": 0}
    lines = [
        [
            name,
            *(rounds.spread(found, figure).format(n) for figure, n in digits.items()),
        ]
        for name, found in results.items()
    ]
    head = ["rows", "s to count", "s to the first batch", "rows/s", "MiB above imports"]
    return rounds.table(head, lines)


if __name__ == "__main__":
    main()
