"""`predict` and `serve` as commands: a new process for each, in every round.

Settings: `module`, of the command; `model`, as for `serve`; `rows`, a JSON file of
rows, each a list of texts; `columns`, the names of the texts; `seconds` of requests
from `clients`, before the server's memory is read; `options` of `predict`.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import peer
from benchmarks.latency import Row
from benchmarks.peers import server

CPU_SECONDS = "CPU s of predict"
SECONDS = "s of predict"
READY_SECONDS = "s until ready"
MEMORY = "peak MiB"


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Reads the rows."""
    rows = json.loads(Path(settings["rows"]).read_text())

    def run_round(number: int) -> peer.Figures:
        return _predict(settings, rows[number % len(rows)]) | _serve(settings, rows)

    return run_round


def _predict(settings: peer.Settings, row: Row) -> peer.Figures:
    texts = ["--pair", *row] if len(row) > 1 else ["--text", *row]
    command = [sys.executable, "-m", settings["module"], "predict"]
    command += ["--model", settings["model"], *settings["options"], *texts]
    start, before = time.perf_counter(), _count_cpu_seconds()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {
        CPU_SECONDS: _count_cpu_seconds() - before,
        SECONDS: time.perf_counter() - start,
    }


def _serve(settings: peer.Settings, rows: Sequence[Row]) -> peer.Figures:
    start = time.perf_counter()
    started = server.start(settings["model"], [], settings["module"])
    seconds = time.perf_counter() - start
    try:
        server.measure(
            started.port,
            started.path,
            rows,
            settings["columns"],
            settings["clients"],
            settings["seconds"],
        )
        return {READY_SECONDS: seconds, MEMORY: read_peak(started.process.pid) / 1024}
    finally:
        started.stop()


def read_peak(process: int) -> int:
    """Returns the KiB of a process and its children that were resident at most.

    Pages that processes share are counted for each of them.
    """
    statuses = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it ended
            lines = path.read_text().splitlines()
            statuses[int(path.parent.name)] = dict(line.split(":", 1) for line in lines)
    family = {process}
    while (
        children := {
            child for child, one in statuses.items() if int(one["PPid"]) in family
        }
        - family
    ):
        family |= children
    # A process that has ended has no memory.
    peaks = (statuses[one].get("VmHWM", "0 kB") for one in family)
    return sum(int(peak.split()[0]) for peak in peaks)


def _count_cpu_seconds() -> float:
    """Returns the processor time of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    peer.serve(prepare)
