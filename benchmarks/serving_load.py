"""Loads a server on this machine, and compares it with the bare SavedModel.

    python benchmarks/serving_load.py --model output/sample/serving/sample

The bare SavedModel is called in a process of its own, a row at a time and 64 at a time.
Then the server is started, with batching and without, and asked for a row at a time by
1, 8 and 64 clients, over HTTP on loopback, from this process, which does nothing else.
Prints a table in Markdown; its ratios are to the bare SavedModel, a row at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.client
import json
import multiprocessing
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS = 200
START_SECONDS = 120
_WORDS = [
    *("the", "a", "of", "to", "in", "and", "for", "on"),
    *("with", "by", "from", "market", "company", "shares", "report", "said"),
    *("year", "government", "officials", "new", "percent", "million", "last", "week"),
    *("people", "court", "state", "president", "before", "after", "against", "more"),
    *("than", "first", "two", "group", "plan", "sales", "quarter", "police"),
]


@dataclasses.dataclass(frozen=True)
class Measured:
    """What was seen.

    Attributes:
      rows_per_second: Rows that were answered.
      p50: Median time of a call, in seconds.
      p99: 99th percentile of the same.
    """

    rows_per_second: float
    p50: float
    p99: float

    @classmethod
    def of(cls, calls: Sequence[float], rows: int, seconds: float) -> Measured:
        """Returns the figures of calls.

        Args:
          calls: How long each took, in seconds.
          rows: Rows in each.
          seconds: How long all took, side by side.
        """
        percentiles = statistics.quantiles(calls, n=100, method="inclusive")
        return cls(
            rows * len(calls) / seconds, statistics.median(calls), percentiles[98]
        )


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="as of `serve`")
    parser.add_argument("--seconds", type=float, default=10, help="for each row")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    arguments = parser.parse_args()
    rows = {}
    for size in (1, 64):
        rows[f"bare SavedModel, {size} at a time", 1] = _in_a_process(
            measure_bare, arguments.model, size, arguments.seconds
        )
    for name, options in (("batching", ()), ("no batching", ("--no-batching",))):
        with serving(arguments.model, *options) as port:
            for clients in arguments.clients:
                measure_server(port, clients, min(2, arguments.seconds))  # warms up
                rows[f"server, {name}", clients] = measure_server(
                    port, clients, arguments.seconds
                )
    print(table(rows))


def table(rows: dict[tuple[str, int], Measured]) -> str:
    """Returns a table in Markdown, with ratios to its first row.

    Args:
      rows: What was measured, by name and number of clients.
    """
    base = next(iter(rows.values()))
    lines = [
        "| what | clients | rows/s | p50 ms | p99 ms | rows/s ÷ bare | p50 ÷ bare |",
        "|---|---|---|---|---|---|---|",
    ]
    for (name, clients), row in rows.items():
        cells = (
            f"{row.rows_per_second:.1f}",
            f"{1000 * row.p50:.1f}",
            f"{1000 * row.p99:.1f}",
            f"{row.rows_per_second / base.rows_per_second:.2f}",
            f"{row.p50 / base.p50:.2f}",
        )
        lines.append(f"| {name} | {clients} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measure_bare(model: Path, rows: int, seconds: float) -> Measured:
    """Calls the SavedModel from one thread.

    Args:
      model: As of `serve`.
      rows: Texts of each call.
      seconds: How long.
    """
    from modules import environment

    environment.silence_start_up()
    import tensorflow as tf

    from serving import discovery
    from serving.models import SERVING_DEFAULT, Model

    versions = discovery.find_model(model).scan()
    loaded = Model(versions[max(versions)], max(versions))
    signature = loaded._functions[SERVING_DEFAULT]
    columns = loaded.signatures[SERVING_DEFAULT].inputs
    texts = make_texts()

    def call() -> None:
        batch = {
            name: tf.constant([next(texts) for _ in range(rows)]) for name in columns
        }
        for output in signature(**batch).values():
            output.numpy()

    for _ in range(3):
        call()
    return Measured.of(repeat(call, seconds), rows, seconds)


def measure_server(port: int, clients: int, seconds: float) -> Measured:
    """Asks a server for a row at a time.

    Args:
      port: Where it is.
      clients: How many ask at once, each when it has its answer.
      seconds: How long.
    """
    name, columns = describe(port)
    calls: list[float] = []

    def client(seed: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        texts = make_texts(seed)

        def call() -> None:
            row = {column: next(texts) for column in columns}
            body = json.dumps({"instances": [row]})
            connection.request("POST", f"/v1/models/{name}:predict", body)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the server answered {answer.status}: {content!r}")

        calls.extend(repeat(call, seconds))
        connection.close()

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Measured.of(calls, 1, time.perf_counter() - start)


def repeat(call: Callable[[], None], seconds: float) -> list[float]:
    """Repeats a call for some seconds; returns how long each took."""
    found = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        call()
        found.append(time.perf_counter() - start)
    return found


def make_texts(seed: int = 0) -> Iterator[str]:
    """Returns sentences of 5 to 40 words, the same for a seed, without an end."""
    chosen = random.Random(seed)
    texts = [
        " ".join(chosen.choices(_WORDS, k=chosen.randint(5, 40))) for _ in range(TEXTS)
    ]
    while True:
        yield from texts


def describe(port: int) -> tuple[str, list[str]]:
    """Returns the name of the model, and its inputs."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/")
    page = connection.getresponse().read().decode()
    found = re.search(r'name="model" content="([^"]+)"', page)
    assert found is not None
    connection.request("GET", f"/v1/models/{found[1]}/metadata")
    metadata = json.loads(connection.getresponse().read())["metadata"]
    signature = metadata["signature_def"]["signature_def"]["serving_default"]
    return found[1], sorted(signature["inputs"])


@contextlib.contextmanager
def serving(model: Path, *options: str) -> Iterator[int]:
    """Runs a server in a process of its own; gives its port when it is ready."""
    command = [sys.executable, "-m", "pipeline", "serve"]
    options = ("--model", str(model.resolve()), "--port", "0", "--no-grpc", *options)
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen([*command, *options], cwd=ROOT, stderr=log)
        try:
            yield _wait_until_ready(server, log.fileno())
        finally:
            server.terminate()
            server.wait()


def _wait_until_ready(server: subprocess.Popen, log: int) -> int:
    text = ""
    end = time.monotonic() + START_SECONDS
    with open(f"/proc/self/fd/{log}") as file:
        while time.monotonic() < end and server.poll() is None:
            text += file.read()
            if "INFO ready" in text:
                found = re.search(r"http://127.0.0.1:(\d+)", text)
                assert found is not None
                return int(found[1])
            time.sleep(0.1)
    raise RuntimeError(f"the server did not start:\n{text}")


def _in_a_process(function: Callable[..., Measured], *arguments: object) -> Measured:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
