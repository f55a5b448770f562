"""Our server under load: requests of one row over HTTP on loopback.

Settings: `model`, as for `serve`; `options` of `serve`; `rows`, a JSON file of rows,
each a list of texts; `columns`, the names of the texts; `clients`, numbers of
concurrent clients; `seconds` for each of them; `module`, of the command, which is that
of `bert-pipeline` by default.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import latency, peer
from benchmarks.latency import Row

HOST = "127.0.0.1"
PIPELINE = "pipeline"  # the module of `bert-pipeline`
START_SECONDS = 120


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Starts a server and warms it up."""
    rows = json.loads(Path(settings["rows"]).read_text())
    module = settings.get("module", PIPELINE)
    server = start(settings["model"], settings["options"], module)

    def load(clients: int, seconds: float) -> peer.Figures:
        return measure(
            server.port, server.path, rows, settings["columns"], clients, seconds
        )

    for clients in settings["clients"]:
        load(clients, min(2, settings["seconds"]))

    def run_round(number: int) -> peer.Figures:
        figures: peer.Figures = {}
        for clients in settings["clients"]:
            summary = load(clients, settings["seconds"])
            figures |= {latency.at(name, clients): v for name, v in summary.items()}
        return figures

    return run_round


def measure(
    port: int,
    path: str,
    rows: Sequence[Row],
    columns: list[str],
    clients: int,
    seconds: float,
    pause: float = 0,
    is_over: Callable[[], bool] | None = None,
) -> peer.Figures:
    """Sends requests of one row to a server.

    Args:
      port: The server's port.
      path: The path of predictions.
      rows: Texts. Each client begins with a different row.
      columns: The names of the texts.
      clients: Concurrent clients, each of which waits for its response.
      seconds: Duration, without `is_over`. Each client sends at least one row.
      pause: Seconds between a response and the next request.
      is_over: Returns whether to send no more requests.

    Raises:
      RuntimeError: The status of a response is not 200.
    """
    bodies = [
        json.dumps({"instances": [dict(zip(columns, row, strict=True))]})
        for row in rows
    ]
    start = time.perf_counter()
    is_over = is_over or (lambda: time.perf_counter() >= start + seconds)

    def send(client: int) -> list[float]:
        durations: list[float] = []
        number = client * len(bodies) // clients
        with contextlib.closing(http.client.HTTPConnection(HOST, port)) as connection:
            # A client that starts late on a busy machine still sends one row.
            while not durations or not is_over():
                sent = time.perf_counter()
                connection.request("POST", path, bodies[number % len(bodies)])
                response = connection.getresponse()
                content = response.read()
                if response.status != 200:
                    raise RuntimeError(f"status {response.status}: {content!r}")
                durations.append(time.perf_counter() - sent)
                number += 1
                time.sleep(pause)
        return durations

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        calls = [call for client in pool.map(send, range(clients)) for call in client]
    return latency.summarize(calls, len(calls), time.perf_counter() - start)


class Server:
    """A server that is ready, until `stop` or the end of this process.

    Attributes:
      process: Its process.
      port: Its port.
      path: The path of predictions.
    """

    def __init__(self, process: subprocess.Popen, log: str) -> None:
        self.process = process
        self._log = Path(log)
        atexit.register(self.stop)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            match = re.search(rf"http://{re.escape(HOST)}:(\d+)", self._log.read_text())
            if match is not None and _is_ready(int(match[1])):
                self.port = int(match[1])
                self.path = _find_path(self.port)
                return
            time.sleep(0.01)
        raise RuntimeError(f"the server did not start:\n{self._log.read_text()}")

    def stop(self) -> None:
        """Ends the server."""
        self.process.terminate()
        self.process.wait()
        self._log.unlink(missing_ok=True)


def start(model: str, options: list[str], module: str = PIPELINE) -> Server:
    """Starts a server.

    Args:
      model: The option `--model` of `serve`.
      options: Further options of `serve`.
      module: The module of the command.

    Raises:
      RuntimeError: It did not start.
    """
    command = [sys.executable, "-m", module, "serve", "--model", model, "--port", "0"]
    command += ["--no-grpc"] if module == PIPELINE else []
    descriptor, log = tempfile.mkstemp()
    process = subprocess.Popen(
        [*command, *options], stdin=subprocess.DEVNULL, stderr=descriptor
    )
    os.close(descriptor)
    return Server(process, log)


def _is_ready(port: int) -> bool:
    with contextlib.closing(http.client.HTTPConnection(HOST, port)) as connection:
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:  # it does not listen yet
            return False


def _find_path(port: int) -> str:
    with contextlib.closing(http.client.HTTPConnection(HOST, port)) as connection:
        connection.request("GET", "/")
        page = connection.getresponse().read().decode()
    match = re.search(r'name="model" content="([^"]+)"', page)
    assert match is not None
    return f"/v1/models/{match[1]}:predict"


if __name__ == "__main__":
    peer.serve(prepare)
