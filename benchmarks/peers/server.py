"""Our server under load: a row a request, over HTTP on loopback, by several clients.

Settings: `model`, as of `serve`; `options`, of `serve`; `rows`, a JSON file of rows,
each a text a column; `columns`, their names; `clients`, how many ask at once; `seconds`
for each.
"""

from __future__ import annotations

import atexit
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import latency, peer
from benchmarks.latency import Row

START_SECONDS = 120


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Starts a server, which ends with this process, and warms it up."""
    rows = json.loads(Path(settings["rows"]).read_text())
    url = _start(settings["model"], settings["options"])
    for clients in settings["clients"]:
        measure(*url, rows, settings["columns"], clients, min(2, settings["seconds"]))

    def run_round(number: int) -> peer.Figures:
        figures: peer.Figures = {}
        for clients in settings["clients"]:
            found = measure(
                *url, rows, settings["columns"], clients, settings["seconds"]
            )
            figures |= {latency.at(name, clients): v for name, v in found.items()}
        return figures

    return run_round


def measure(
    port: int,
    path: str,
    rows: list[Row],
    columns: list[str],
    clients: int,
    seconds: float,
) -> peer.Figures:
    """Asks a server for a row at a time.

    Args:
      port: Where it is.
      path: Where it predicts.
      rows: Texts; each client begins elsewhere.
      columns: Their names.
      clients: How many ask at once, each again when it has its answer.
      seconds: How long.

    Raises:
      RuntimeError: It answered anything but 200, or one client has had no answer.
    """
    calls: list[list[float]] = [[] for _ in range(clients)]
    bodies = [
        json.dumps({"instances": [dict(zip(columns, row, strict=True))]})
        for row in rows
    ]
    start = time.perf_counter()

    def ask(client: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        number = client * len(bodies) // clients
        while (begun := time.perf_counter()) < start + seconds:
            connection.request("POST", path, bodies[number % len(bodies)])
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the server answered {answer.status}: {content!r}")
            calls[client].append(time.perf_counter() - begun)
            number += 1
        connection.close()

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = time.perf_counter() - start
    if not all(calls):  # what a thread raises, nobody hears
        raise RuntimeError(f"of {clients} clients, {calls.count([])} had no answer")
    answered = [call for client in calls for call in client]
    return latency.summarize(answered, len(answered), total)


def _start(model: str, options: list[str]) -> tuple[int, str]:
    command = [sys.executable, "-m", "pipeline", "serve", "--model", model]
    command += ["--port", "0", "--no-grpc", *options]
    descriptor, log = tempfile.mkstemp()
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=descriptor)
    os.close(descriptor)
    atexit.register(_stop, server, log)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        text = Path(log).read_text()
        found = re.search(r"http://127.0.0.1:(\d+)", text)
        if found is not None and "INFO ready" in text:
            return int(found[1]), _find_path(int(found[1]))
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start:\n{Path(log).read_text()}")


def _stop(server: subprocess.Popen, log: str) -> None:
    server.terminate()
    server.wait()
    Path(log).unlink()


def _find_path(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/")
    page = connection.getresponse().read().decode()
    found = re.search(r'name="model" content="([^"]+)"', page)
    assert found is not None
    return f"/v1/models/{found[1]}:predict"


if __name__ == "__main__":
    peer.serve(prepare)
