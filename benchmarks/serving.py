"""Compares the exported model with other ways to serve the same weights.

    python -m benchmarks.serving --config configs/mrpc_minilm.yaml --data DIR --model
    OUTPUT/serving/mrpc-minilm

One thread predicts the rows of the evaluation split, in batches of 32 and of 1. The
peers are the SavedModel of the Model Garden's tutorial ("Fine-tuning a BERT model"),
which pads every pair to the maximum length, Transformers' pipeline on PyTorch, and our
runtime. All must predict the same probabilities, except a further runtime in int8.
Our server gets requests of one row over HTTP, from 1 client and from 32. Prints tables
in Markdown.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks import latency, peer_environment, rounds, serving_load
from benchmarks.peer import Figures
from benchmarks.rounds import Peer
from ingest import examples
from modules import environment
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.inputs.encoder_source import resolve_encoder
from serving import discovery

OURS = "our `serving_default`"
SERVER = "our server, 1 and 32 clients"
TUTORIAL = "the tutorial's `ExportModel`"
TRANSFORMERS = "Transformers' pipeline"
RUNTIME = "our runtime"
RUNTIME_INT8 = "our runtime, int8"
BATCH = 32
TOLERANCE = 1e-4  # of a probability
_FIGURES = (
    (latency.at(latency.ROWS_PER_SECOND, BATCH), 1),
    (latency.at(latency.P50, 1), 1),
    (latency.at(latency.P99, 1), 1),
)
SHORT_ROWS = 96


def read_rows(config: recipe.Config, limit: int | None) -> list[list[str]]:
    """Returns the texts of the evaluation split that all peers tokenize identically.

    The tutorial's tokenizer, of TensorFlow Text, folds case and the others lower it,
    which differs for a few characters such as "ß" and the micro sign.

    Args:
      config: Names the TSV files and their columns.
      limit: Maximum number of rows to read; None reads all.

    Raises:
      click.UsageError: The file is missing, or the task is a regression.
    """
    task = config.task
    if not task.label_kind.names:
        raise click.UsageError(
            f"task {task.name} is a regression; give a recipe of classes with --config",
        )
    table = examples.read_split(config.data_source, "eval", config.data, task)
    rows = [
        [row[name] for name in task.text_columns]
        for row in itertools.islice(table, limit)
    ]
    return [row for row in rows if all(t.lower() == t.casefold() for t in row)]


def measure(
    config: recipe.Config,
    model: Path,
    texts: list[list[str]],
    count: int,
    seconds: float,
    python: str | None,
) -> tuple[dict[str, list[Figures]], dict[str, float]]:
    """Runs the peers in turn.

    Args:
      config: Names the task and the encoder.
      model: A directory of versions or a SavedModel, as for `serve --model`.
      texts: The rows.
      count: Number of rounds.
      seconds: Time of a round for each number of clients of the server.
      python: The Python that has PyTorch and Transformers; None leaves them out.

    Returns:
      The figures of each round, and the result of `find_differences`.
    """
    versions = discovery.find_model(model).scan()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        rows = directory / "rows.json"
        rows.write_text(json.dumps(texts))
        newest = versions[max(versions)]
        peers = prepare_peers(config, newest, rows, directory, seconds, python)
        results = rounds.run_rounds(peers, count)
        predictions = {
            peer.name: np.array(
                json.loads(Path(peer.settings["predictions"]).read_text())
            )
            for peer in peers
            if "predictions" in peer.settings
        }
        return results, find_differences(predictions)


def prepare_peers(
    config: recipe.Config,
    model: Path,
    rows: Path,
    directory: Path,
    seconds: float,
    python: str | None,
) -> list[Peer]:
    """Writes the peers' models with the weights of ours; returns all peers.

    Args:
      config: Names the task and the encoder.
      model: The SavedModel.
      rows: A JSON file of the texts of each row.
      directory: For the models, and the probabilities that the peers predict.
      seconds: Time of a round for each number of clients of the server.
      python: The Python of the peer that needs PyTorch; None leaves it out.
    """
    # These import TensorFlow, which takes seconds.
    from benchmarks import same_weights
    from modules.encoder.directory import open_encoder
    from modules.export.onnx import portable_folder
    from modules.export.pushed_model import read_pushed
    from prediction.export import folders

    task, length = config.task, config.preprocessing.max_seq_length
    encoder = open_encoder(resolve_encoder(config).directory)
    restored = same_weights.restore(model, encoder, task)
    tutorial, hugging_face, portable = (
        directory / name for name in ("tutorial", "hugging_face", "portable")
    )
    same_weights.write_tutorial(
        restored, encoder, task, tutorial, max_seq_length=length
    )
    folders.export(str(model), str(hugging_face), lambda line: None)
    portable.mkdir()
    portable_folder.write(read_pushed(str(model)), portable, is_int8=True)

    def settings(served: Path, predictions: str, **more: Any) -> dict[str, Any]:
        return more | {
            "model": str(served),
            "rows": str(rows),
            "columns": task.text_columns,
            "max_seq_length": length,
            "sizes": [1, BATCH],
            "threads": rounds.THREADS,
            "predictions": str(directory / predictions),
        }

    requests = {
        "model": str(model),
        "rows": str(rows),
        "columns": task.text_columns,
        "options": [],
        "clients": [1, BATCH],
        "seconds": seconds,
    }
    peers = [
        Peer(OURS, "saved_model.py", settings(model, "ours.json")),
        Peer(SERVER, "server.py", requests),
        Peer(TUTORIAL, "saved_model.py", settings(tutorial, "tutorial.json")),
        *(
            Peer(
                name,
                "runtime_model.py",
                settings(portable, f"{name}.json", is_int8=is_int8),
            )
            for name, is_int8 in ((RUNTIME, False), (RUNTIME_INT8, True))
        ),
    ]
    if python is None:
        return peers
    transformers = settings(hugging_face, "transformers.json")
    return [
        *peers,
        Peer(TRANSFORMERS, "transformers_pipeline.py", transformers, python),
    ]


def find_differences(predictions: dict[str, np.ndarray]) -> dict[str, float]:
    """Returns the largest difference of each peer's probabilities from ours.

    Args:
      predictions: Probabilities float[rows, classes] by peer.

    Raises:
      ValueError: A difference is larger than the same weights explain. Differences of
        int8 weights are not checked.
    """
    differences = {
        name: float(abs(values - predictions[OURS]).max())
        for name, values in predictions.items()
    }
    for name, difference in differences.items():
        if name != RUNTIME_INT8 and not difference <= TOLERANCE:
            raise ValueError(
                f"{name} predicts a probability that differs by {difference:.3g} from "
                f"ours, more than {TOLERANCE}: the models are not comparable"
            )
    return differences


def speed_table(results: dict[str, list[Figures]]) -> str:
    """Returns a table of all figures, and ours divided by theirs within a round."""
    lines = []
    for name, theirs in results.items():
        line = [name]
        for figure, digits in _FIGURES:
            line.append(rounds.spread(theirs, figure).format(digits))
            ratio = rounds.ratio(results[OURS], theirs, figure)
            line.append("" if name == OURS else ratio.format(2))
        lines.append(line)
    head = ["what"]
    for figure, _ in _FIGURES:
        head += [figure, "ours ÷ theirs"]
    return rounds.table(head, lines)


@click.command(help=__doc__)
@options.CONFIG
@options.SET
@click.option("--data", "source", help="Directory of TSV splits, as for `run`.")
@serving_load.MODEL_OPTION
@click.option("--rounds", "count", type=int, default=5, show_default=True)
@click.option("--short", is_flag=True, help=f"{SHORT_ROWS} rows, 1 round.")
@peer_environment.WITHOUT
def main(
    config_file: Path,
    overrides: dict[str, Any],
    source: str | None,
    model: Path,
    count: int,
    short: bool,
    without_pytorch: bool,
) -> None:
    """Measures, and prints the tables."""
    environment.set_up(quiet=True)
    if source is not None:
        overrides["data.source"] = source
    config = recipe.load_config(config_file, overrides)
    texts = read_rows(config, SHORT_ROWS if short else None)
    results, differences = measure(
        config,
        model,
        texts,
        1 if short else count,
        2.0 if short else 6.0,
        None if without_pytorch else peer_environment.build(),
    )
    print(f"{len(texts)} rows, {rounds.describe_machine()}\n", file=sys.stderr)
    print(speed_table(results))
    print("\nLargest difference of a probability from ours:", end=" ")
    print(", ".join(f"{name} {value:.1e}" for name, value in differences.items()))


if __name__ == "__main__":
    main()
