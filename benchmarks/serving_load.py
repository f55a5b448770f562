"""Loads a server on this machine, and compares it with the bare SavedModel.

    python -m benchmarks.serving_load --model output/sample/serving/sample

One process calls the bare SavedModel with batches of 1 and of 64 rows. Another sends
requests of one row to the server from 1, 8 and 64 clients, over HTTP on loopback, with
the server's batching and without. Prints a table in Markdown. Its ratios compare with
the bare SavedModel with one row, within a round.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks import latency, rounds
from benchmarks.peer import Figures
from benchmarks.rounds import Peer
from contracts.versions import exported_model
from contracts.versions.served_versions import GRAPH_FILE
from ingest import examples
from pipeline.config.paths import REPOSITORY
from serving import discovery

BARE = "bare SavedModel"
SERVERS: dict[str, list[str]] = {
    "server, batching": [],
    "server, no batching": ["--no-batching"],
}
SIZES = [1, 64]
MODEL_OPTION = click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="A directory of versions or a SavedModel, as for `serve`.",
)
DATA_OPTION = click.option(
    "--data",
    default=str(REPOSITORY / "sample_data"),
    help="Directory of TSV splits.  [default: sample_data]",
)
_FIGURES = (latency.ROWS_PER_SECOND, latency.P50, latency.P99)


def read_rows(source: str, columns: Sequence[str]) -> list[list[str]]:
    """Returns the texts of the evaluation split of a directory.

    Raises:
      click.UsageError: There is no such split, or it lacks a column.
    """
    rows = list(examples.read_split(source, "eval"))
    missing = [name for name in columns if name not in rows[0]]
    if missing:
        raise click.UsageError(
            f"--data {source} has no column {', '.join(missing)}, which the model "
            "needs; give a directory of its task's splits",
        )
    return [[row[name] for name in columns] for row in rows]


def measure(
    model: Path, data: str, clients: list[int], seconds: float, count: int
) -> dict[str, list[Figures]]:
    """Runs the peers in turn.

    Args:
      model: A directory of versions or a SavedModel, as for `serve --model`.
      data: Directory of TSV splits, whose evaluation split is sent.
      clients: Numbers of concurrent clients.
      seconds: Time for each of them.
      count: Number of rounds.

    Returns:
      The figures of each round by the peer's name.
    """
    columns = find_columns(model)
    rows = read_rows(data, columns)
    print(f"{len(rows)} rows, {rounds.describe_machine()}\n", file=sys.stderr)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.json"
        path.write_text(json.dumps(rows))
        peers = prepare_peers(model, columns, path, clients, seconds)
        return rounds.run_rounds(peers, count)


def prepare_peers(
    model: Path, columns: list[str], rows: Path, clients: list[int], seconds: float
) -> list[Peer]:
    """Returns the processes to measure.

    Args:
      model: A directory of versions or a SavedModel, as for `serve --model`.
      columns: The names of its texts.
      rows: A JSON file of rows.
      clients: Numbers of concurrent clients.
      seconds: Time for each of them.
    """
    versions = discovery.find_model(model).scan()
    common = {"rows": str(rows), "columns": columns}
    bare = {"model": str(versions[max(versions)]), "sizes": SIZES, "predictions": None}
    served = {"model": str(model.resolve()), "clients": clients, "seconds": seconds}
    return [
        Peer(BARE, "saved_model.py", {**common, **bare}),
        *(
            Peer(name, "server.py", {**common, **served, "options": options})
            for name, options in SERVERS.items()
        ),
    ]


def table(results: dict[str, list[Figures]], clients: Sequence[int]) -> str:
    """Returns a table in Markdown.

    Args:
      results: The figures of each round by the peer's name.
      clients: Numbers of concurrent clients.
    """
    bare = results[BARE]
    lines = [
        _line(f"{BARE}, batches of {size}", "1", bare, bare, size) for size in SIZES
    ]
    lines += [
        _line(name, str(count), results[name], bare, count)
        for name in SERVERS
        for count in clients
    ]
    ratios = [f"{name.removesuffix(' ms')} ÷ bare" for name in _FIGURES]
    return rounds.table(["what", "clients", *_FIGURES, *ratios], lines)


def _line(
    name: str, clients: str, measured: list[Figures], bare: list[Figures], key: int
) -> list[str]:
    spreads, ratios = [], []
    for figure in _FIGURES:
        ours = [{figure: figures[latency.at(figure, key)]} for figures in measured]
        base = [{figure: figures[latency.at(figure, 1)]} for figures in bare]
        digits = 1 if figure == latency.ROWS_PER_SECOND else 0
        spreads.append(rounds.spread(ours, figure).format(digits))
        ratios.append(f"{rounds.ratio(ours, base, figure).median:.2f}")
    return [name, clients, *spreads, *ratios]


def find_columns(model: Path) -> list[str]:
    """Returns the names of the texts of a model, given as for `serve`."""
    # Imports TensorFlow, which takes seconds.
    from tensorflow.core.protobuf import saved_model_pb2

    versions = discovery.find_model(model).scan()
    content = (versions[max(versions)] / GRAPH_FILE).read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return sorted(graph.signature_def[exported_model.SERVING_DEFAULT].inputs)


@click.command(help=__doc__)
@MODEL_OPTION
@DATA_OPTION
@click.option("--clients", type=int, multiple=True, default=[1, 8, 64])
@click.option("--seconds", type=float, default=6, show_default=True, help="For each.")
@click.option("--rounds", "count", type=int, default=5, show_default=True)
@click.option("--short", is_flag=True, help="2 seconds for each, 1 round.")
def main(
    model: Path,
    data: str,
    clients: tuple[int, ...],
    seconds: float,
    count: int,
    short: bool,
) -> None:
    """Measures, and prints the table."""
    if short:
        count, seconds = 1, 2
    print(table(measure(model, data, list(clients), seconds, count), clients))


if __name__ == "__main__":
    main()
