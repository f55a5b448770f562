"""Measures Transform against its tokenizer in plain tf.data and Hugging Face's.

    python -m benchmarks.transform --data path/to/MRPC --rows 4076 --rows 10000

Each takes the same rows in a process of its own, a new one each round: `Transform` is
TFX's executor with the pipeline's properties, and writes TFRecords; `tf.data` writes
the same with the same tokenizer; `tokenizers` reads TSV and writes nothing but ids.
Then the ids of all three are compared, row by row.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np

from benchmarks import peer_environment, rounds
from benchmarks.comparisons import hash_bytes
from benchmarks.peer import Figures
from modules import environment
from modules.config.task import TaskConfig
from pipeline.config.paths import REPOSITORY
from pipeline.config.recipe import load_config
from pipeline.inputs import encoder_source
from pipeline.inputs.examples import tables, tfrecords
from pipeline.inputs.examples.splits import Row

CONFIG = REPOSITORY / "configs" / "mrpc_minilm.yaml"
SAMPLE = REPOSITORY / "sample_data"
TRANSFORM, TF_DATA, TOKENIZERS = "Transform", "tf.data", "tokenizers"
_SCRIPTS = {
    TRANSFORM: "transform_tfx.py",
    TF_DATA: "transform_tf_data.py",
    TOKENIZERS: "transform_tokenizers.py",
}
_TRAIN_SHARE = 0.9
_SHORT = (300, 600)
_TEXTS = ("sentence1", "sentence2")
Results = dict[int, dict[str, list[Figures]]]


def repeat_rows(known: Sequence[Row], count: int) -> Iterator[Row]:
    """Yields rows, numbered; those after the known ones are the known ones changed.

    Args:
      known: Rows with `sentence1`, `sentence2` and `label`.
      count: How many are wanted.
    """
    for index, row in enumerate(itertools.islice(itertools.cycle(known), count)):
        changed = {**row, "idx": str(index)}
        if index >= len(known):
            changed["sentence1"] += f" No. {index}"
        yield changed


def write_rows(
    known: Sequence[Row], count: int, directory: Path, task: TaskConfig
) -> None:
    """Writes rows as ExampleGen does, two splits of one file each, and as TSV.

    Args:
      known: What they are made of; see `repeat_rows`.
      count: How many.
      directory: A new one.
      task: Of the columns.
    """
    rows = repeat_rows(known, count)
    directory.mkdir(parents=True)
    with open(directory / "rows.tsv", "w", encoding="utf-8") as table:

        def tell(row: Row) -> tuple[str, Row]:
            print(row["idx"], *(row[name] for name in _TEXTS), sep="\t", file=table)
            return "", row

        told = map(tell, rows)
        train = round(_TRAIN_SHARE * count)
        for split, size in (("train", train), ("eval", count - train)):
            tfrecords.write_records(
                itertools.islice(told, size), directory / f"Split-{split}", task
            )


def read_known(directory: Path | None, task: TaskConfig) -> list[Row]:
    """Reads the labelled rows of a directory of TSV files; the sample's for None."""
    source = str(directory or SAMPLE)
    splits = tables.open_tables(source, task, lambda _: None).values()
    return [row for rows in splits if rows for _, row in rows]


def hash_records(directory: Path, count: int) -> np.ndarray:
    """Returns a hash of the token ids of each row, by its number, uint64[count].

    Args:
      directory: With splits of TFRecords of `idx` and `input_word_ids`, in any order.
      count: How many rows there are.

    Raises:
      ValueError: There are more rows, or fewer.
    """
    import tensorflow as tf

    features = {
        "idx": tf.io.FixedLenFeature([], tf.int64),
        "input_word_ids": tf.io.RaggedFeature(tf.int64),
    }
    hashes = np.zeros(count, np.uint64)
    found = 0
    paths = sorted(str(path) for path in directory.glob("Split-*/*"))
    examples = tf.data.TFRecordDataset(paths, "GZIP").batch(1000)
    for batch in examples.map(lambda rows: tf.io.parse_example(rows, features)):
        ids = batch["input_word_ids"]
        found += len(batch["idx"])
        hashes[batch["idx"].numpy()] = _hash_rows(
            ids.values.numpy(), ids.row_lengths().numpy()
        )
    if found != count:
        raise ValueError(f"{directory} has {found} rows, and not {count}")
    return hashes


def hash_flat(directory: Path) -> np.ndarray:
    """Returns the same of what the peer `tokenizers` wrote."""
    ids = np.fromfile(directory / "ids", np.int32)
    return np.asarray(
        _hash_rows(ids, np.fromfile(directory / "lengths", np.int32)), np.uint64
    )


def _hash_rows(ids: np.ndarray, lengths: np.ndarray) -> list[int]:
    ends = np.cumsum(lengths)
    return [
        hash_bytes(ids[start:end].astype(np.int32).tobytes())
        for start, end in zip(ends - lengths, ends, strict=True)
    ]


def measure(
    counts: Sequence[int],
    repeats: int,
    directory: Path,
    *,
    data: Path | None,
    recipe: Path,
) -> tuple[Results, dict[int, dict[str, int]]]:
    """Runs all peers on each number of rows.

    Args:
      counts: Numbers of rows.
      repeats: Rounds of each.
      directory: Where rows and results are written.
      data: TSV files that the rows are made of; None takes the sample's.
      recipe: Of the pipeline.

    Returns:
      Figures by number of rows and peer, a round each; and how many rows' ids differ
      from Transform's, by the same.
    """
    config = load_config(recipe)
    known = read_known(data, config.task)
    encoder = encoder_source.resolve_encoder(config)
    python = {TOKENIZERS: peer_environment.build()}
    figures: Results = {}
    differing = {}
    for count in counts:
        rows = directory / f"rows-{count}"
        write_rows(known, count, rows, config.task)
        peers = [
            rounds.Peer(
                name,
                script,
                {
                    "data": str(rows),
                    "output": str(rows / name),
                    "config": str(recipe),
                    "vocab_file": encoder.vocab_file,
                    "max_seq_length": config.preprocessing.max_seq_length,
                },
                **({"python": python[name]} if name in python else {}),
            )
            for name, script in _SCRIPTS.items()
        ]
        figures[count] = _run_in_new_processes(peers, repeats)
        differing[count] = _compare(rows, count)
    return figures, differing


def _run_in_new_processes(
    peers: list[rounds.Peer], repeats: int
) -> dict[str, list[Figures]]:
    # What was built once stays for a process's second round, as a run has none.
    found: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    for number in range(repeats):
        first = number % len(peers)
        for peer in peers[first:] + peers[:first]:
            found[peer.name] += rounds.run_rounds([peer], 1)[peer.name]
    return found


def _compare(rows: Path, count: int) -> dict[str, int]:
    ours = hash_records(rows / TRANSFORM / "transformed_examples", count)
    theirs = {
        TF_DATA: hash_records(rows / TF_DATA, count),
        TOKENIZERS: hash_flat(rows / TOKENIZERS),
    }
    return {name: int(np.sum(hashes != ours)) for name, hashes in theirs.items()}


def to_markdown(figures: Results, differing: dict[int, dict[str, int]]) -> str:
    """Returns a table of all figures, and one of what further rows cost."""
    lines = []
    for count, peers in figures.items():
        for name, results in peers.items():
            seconds = rounds.spread(results, "seconds")
            lines.append(
                [
                    f"{count:,}",
                    name,
                    *(_show(results, figure) for figure in ("import", "tracing")),
                    seconds.format(1),
                    f"{count / seconds.median:,.0f}",
                    _ratio(peers[TRANSFORM], results) if name != TRANSFORM else "",
                    f"{rounds.spread(results, 'memory').median:,.0f}",
                    "" if name == TRANSFORM else str(differing[count][name]),
                ]
            )
    head = ["rows", "what", "import s", "of it: tracing s", "seconds", "rows/s"]
    head += ["Transform ÷ this", "peak MiB", "rows that differ"]
    return rounds.table(head, lines) + "\n\n" + _further(figures)


def _further(figures: Results) -> str:
    lines = []
    for fewer, more in itertools.pairwise(sorted(figures)):
        for name in figures[more]:
            low, high = (
                rounds.spread(figures[count][name], "seconds").median
                for count in (fewer, more)
            )
            further = (high - low) / (more - fewer) * 100_000
            lines.append([f"{fewer:,} to {more:,}", name, f"{further:.1f}"])
    return rounds.table(["rows", "what", "seconds a further 100,000"], lines)


def _show(results: list[Figures], figure: str) -> str:
    if figure not in results[0]:
        return ""
    return rounds.spread(results, figure).format(1)


def _ratio(ours: list[Figures], theirs: list[Figures]) -> str:
    return rounds.ratio(ours, theirs, "seconds").format(2)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), help="MRPC; else the sample.")
@click.option("--rows", "counts", type=int, multiple=True, default=[4076, 10_000])
@click.option("--rounds", "repeats", type=int, default=3)
@click.option("--short", is_flag=True, help="A few rows, once.")
@click.option("--config", "recipe", type=click.Path(path_type=Path), default=CONFIG)
def main(
    data: Path | None, counts: tuple[int, ...], repeats: int, short: bool, recipe: Path
) -> None:
    """Runs the command line."""
    environment.set_up(quiet=True)
    if short:
        counts, repeats = _SHORT, 1
    with tempfile.TemporaryDirectory() as directory:
        measured = measure(counts, repeats, Path(directory), data=data, recipe=recipe)
    print(rounds.describe_machine(), end="\n\n")
    print(to_markdown(*measured))


if __name__ == "__main__":
    main()
