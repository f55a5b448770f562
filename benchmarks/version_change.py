"""Compares the latency of requests while the version changes with that before.

    python -m benchmarks.version_change --model output/sample/serving/sample

Two clients send requests of one row to the server over HTTP on loopback, each 20 ms
after its last response. A round measures them without a change, and while a copy of the
version is loaded, gets the requests, and the one before it is unloaded. Prints a table
in Markdown, with the ratio within a round.
"""

from __future__ import annotations

import functools
import http.client
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from benchmarks import latency, rounds, serving_load
from benchmarks.latency import Row
from benchmarks.peer import Figures
from benchmarks.peers import server
from serving import discovery

QUIET, CHANGE = "no change", "change of version"
CLIENTS = 2
PAUSE_SECONDS = 0.02
CHANGE_SECONDS = 300
_FIGURES = (latency.ROWS_PER_SECOND, latency.P50, latency.P99)


def measure(
    model: Path, rows: Sequence[Row], columns: list[str], seconds: float, count: int
) -> dict[str, list[Figures]]:
    """Changes the version of a server once in each round.

    Args:
      model: A directory of versions or a SavedModel, as for `serve --model`.
      rows: Texts.
      columns: Their names.
      seconds: Time without a change in a round.
      count: Number of rounds.

    Returns:
      The figures of each round without a change and with one.

    Raises:
      TimeoutError: A change of version took more than 5 minutes.
    """
    versions = discovery.find_model(model).scan()
    source = versions[max(versions)]
    results: dict[str, list[Figures]] = {QUIET: [], CHANGE: []}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "model"
        shutil.copytree(source, root / "1")
        started = server.start(str(root), ["--poll-seconds", "0.2"])
        port, path = started.port, started.path
        load = functools.partial(
            server.measure, port, path, rows, columns, CLIENTS, pause=PAUSE_SECONDS
        )
        load(min(2, seconds))
        for number in range(1, count + 1):
            results[QUIET].append(load(seconds))
            hidden = root / ".next"
            shutil.copytree(source, hidden)
            is_changed = threading.Event()
            with ThreadPoolExecutor(1) as pool:
                loading = pool.submit(load, seconds, is_over=is_changed.is_set)
                try:
                    hidden.rename(root / str(number + 1))
                    end = time.monotonic() + CHANGE_SECONDS
                    while _state(port, path, number) != "END":
                        if time.monotonic() > end:
                            raise TimeoutError(f"version {number} is not unloaded")
                        time.sleep(0.1)
                finally:
                    is_changed.set()
                results[CHANGE].append(loading.result())
    return results


def _state(port: int, path: str, version: int) -> str:
    connection = http.client.HTTPConnection(server.HOST, port)
    connection.request("GET", path.removesuffix(":predict"))
    statuses = json.load(connection.getresponse())["model_version_status"]
    connection.close()
    (state,) = (s["state"] for s in statuses if int(s["version"]) == version)
    return str(state)


def table(results: dict[str, list[Figures]]) -> str:
    """Returns a table in Markdown.

    Args:
      results: What `measure` returns.
    """
    lines = []
    for name, measured in results.items():
        spreads = [rounds.spread(measured, figure).format(0) for figure in _FIGURES]
        ratio = rounds.ratio(measured, results[QUIET], latency.P99).format(2)
        lines.append([name, *spreads, ratio])
    return rounds.table(["while", *_FIGURES, f"p99 ÷ {QUIET}"], lines)


@click.command(help=__doc__)
@serving_load.MODEL_OPTION
@serving_load.DATA_OPTION
@click.option(
    "--seconds", type=float, default=6, show_default=True, help="Without a change."
)
@click.option("--rounds", "count", type=int, default=5, show_default=True)
@click.option("--short", is_flag=True, help="1 round.")
def main(model: Path, data: str, seconds: float, count: int, short: bool) -> None:
    """Measures, and prints the table."""
    columns = serving_load.find_columns(model)
    rows = serving_load.read_rows(data, columns)
    print(f"{len(rows)} rows, {rounds.describe_machine()}\n", file=sys.stderr)
    print(table(measure(model, rows, columns, seconds, 1 if short else count)))


if __name__ == "__main__":
    main()
