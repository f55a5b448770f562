"""Loads a server on this machine, and compares it with the bare SavedModel.

    python -m benchmarks.serving_load --model output/sample/serving/sample

The bare SavedModel is called in a process of its own, a row at a time and 64 at a time.
The server runs with batching and without, and is asked for a row at a time by 1, 8 and
64 clients, over HTTP on loopback, from another process, which does nothing else. Prints
a table in Markdown; its ratios are to the bare SavedModel, a row at a time, in the same
round.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks import latency, rounds
from benchmarks.peer import Figures
from benchmarks.rounds import Peer
from pipeline.config.errors import UsageError
from pipeline.inputs import examples
from serving import discovery

BARE = "bare SavedModel"
SERVERS: dict[str, list[str]] = {
    "server, batching": [],
    "server, no batching": ["--no-batching"],
}
SIZES = [1, 64]
TEXTS = 200
_WORDS = [
    *("the", "a", "of", "to", "in", "and", "for", "on"),
    *("with", "by", "from", "market", "company", "shares", "report", "said"),
    *("year", "government", "officials", "new", "percent", "million", "last", "week"),
    *("people", "court", "state", "president", "before", "after", "against", "more"),
    *("than", "first", "two", "group", "plan", "sales", "quarter", "police"),
]


def make_rows(columns: int, seed: int = 0) -> list[list[str]]:
    """Returns rows of sentences of 5 to 40 words, the same for a seed."""
    chosen = random.Random(seed)
    return [
        [
            " ".join(chosen.choices(_WORDS, k=chosen.randint(5, 40)))
            for _ in range(columns)
        ]
        for _ in range(TEXTS)
    ]


def read_rows(source: str, columns: Sequence[str]) -> list[list[str]]:
    """Returns the texts of a directory's evaluation split.

    Raises:
      UsageError: It has no such split, or the split lacks a column.
    """
    path = examples.find_tables(source).get("eval")
    if path is None:
        raise UsageError(f"--data {source} has no TSV of the split eval")
    rows = [row for _, row in examples.read_table(path)]
    missing = [name for name in columns if name not in rows[0]]
    if missing:
        raise UsageError(f"{path} has no column {', '.join(missing)} of the model")
    return [[row[name] for name in columns] for row in rows]


def prepare_peers(
    model: Path, columns: list[str], rows: Path, clients: list[int], seconds: float
) -> list[Peer]:
    """Returns what is measured.

    Args:
      model: As of `serve`.
      columns: Its inputs.
      rows: A JSON file of their texts.
      clients: How many ask at once.
      seconds: For each.
    """
    source = discovery.find_model(model)
    versions = source.scan()
    common = {"rows": str(rows), "columns": columns}
    bare = {"model": str(versions[max(versions)]), "sizes": SIZES, "answers": None}
    peers = [Peer(BARE, "saved_model.py", {**common, **bare})]
    for name, arguments in SERVERS.items():
        asked = {"clients": clients, "seconds": seconds}
        settings = {**common, **asked, "options": arguments}
        path = str(model.resolve())
        peers.append(Peer(name, "server.py", {**settings, "model": path}))
    return peers


def table(results: dict[str, list[Figures]], clients: Sequence[int]) -> str:
    """Returns a table in Markdown.

    Args:
      results: The figures of each round by the peer's name.
      clients: That asked the servers.
    """
    base = results[BARE]
    lines = [
        _line(f"{BARE}, {size} at a time", "1", base, base, size) for size in SIZES
    ]
    lines += [
        _line(name, str(count), results[name], base, count)
        for name in SERVERS
        for count in clients
    ]
    names = (latency.ROWS_PER_SECOND, latency.P50, latency.P99)
    ratios = [f"{name.removesuffix(' ms')} ÷ bare" for name in names]
    return rounds.table(["what", "clients", *names, *ratios], lines)


def _line(
    name: str, clients: str, found: Sequence[Figures], base: Sequence[Figures], key: int
) -> list[str]:
    figures, ratios = [], []
    for figure in (latency.ROWS_PER_SECOND, latency.P50, latency.P99):
        ours = [{figure: each[latency.at(figure, key)]} for each in found]
        bare = [{figure: each[latency.at(figure, 1)]} for each in base]
        digits = 1 if figure == latency.ROWS_PER_SECOND else 0
        figures.append(rounds.spread(ours, figure).format(digits))
        ratios.append(f"{rounds.ratio(ours, bare, figure).median:.2f}")
    return [name, clients, *figures, *ratios]


@click.command(help=__doc__)
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="As of `serve`.",
)
@click.option(
    "--data", "source", help="Directory of TSV splits; made-up texts without."
)
@click.option("--clients", type=int, multiple=True, default=[1, 8, 64])
@click.option("--seconds", type=float, default=6, show_default=True, help="For each.")
@click.option("--rounds", "count", type=int, default=5, show_default=True)
@click.option("--short", is_flag=True, help="2 seconds for each, 1 round.")
def main(
    model: Path,
    source: str | None,
    clients: tuple[int, ...],
    seconds: float,
    count: int,
    short: bool,
) -> None:
    """Runs the command line."""
    if short:
        count, seconds = 1, 2
    columns = find_columns(model)
    with tempfile.TemporaryDirectory() as directory:
        rows = read_rows(source, columns) if source else make_rows(len(columns))
        path = Path(directory) / "rows.json"
        path.write_text(json.dumps(rows))
        peers = prepare_peers(model, columns, path, list(clients), seconds)
        results = rounds.run_rounds(peers, count)
    print(f"{len(rows)} rows, {rounds.describe_machine()}\n", file=sys.stderr)
    print(table(results, clients))


def find_columns(model: Path) -> list[str]:
    """Returns the names of a model's texts.

    Args:
      model: As of `serve`.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    versions = discovery.find_model(model).scan()
    content = (versions[max(versions)] / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return sorted(graph.signature_def["serving_default"].inputs)


if __name__ == "__main__":
    main()
