"""The peak memory of Beam's processes on this machine."""

from __future__ import annotations

import collections
import os
import threading

import psutil

# The kind of a process by a part of its command line.
_KINDS = {
    "sh -c ": None,  # Beam starts its workers in shells
    "sdk_worker_main": "worker",
    "sdk_worker import SdkHarness": "worker",
    "TaskManagerRunner": "TaskManager",
    "StandaloneSessionClusterEntrypoint": "JobManager",
    "CoarseGrainedExecutorBackend": "executor",
    "--artifacts-dir": "job server",
}


class PeakMemory:
    """Samples the resident memory of this process and of Beam's, until it is closed.

    Run one job at a time: workers of other jobs on the machine are counted, too.
    """

    def __init__(self) -> None:
        self._peaks: dict[tuple[str, int], int] = {}

    def __enter__(self) -> PeakMemory:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def __str__(self) -> str:
        """Peaks of each process in GiB, such as `component 1.2, worker 0.9 + 0.8`."""
        kinds = collections.defaultdict(list)
        for (kind, _), peak in self._peaks.items():
            kinds[kind].append(f"{peak / (1 << 30):.1f}")
        return ", ".join(f"{kind} {' + '.join(peaks)}" for kind, peaks in kinds.items())

    def _sample(self) -> None:
        while not self._is_over.wait(0.5):
            for process in psutil.process_iter(["pid", "cmdline", "memory_info"]):
                kind: str | None = "component"
                if process.pid != os.getpid():
                    line = " ".join(process.info["cmdline"] or ())
                    kind = next((_KINDS[part] for part in _KINDS if part in line), None)
                if kind:
                    key = kind, process.pid
                    size = process.info["memory_info"].rss
                    self._peaks[key] = max(size, self._peaks.get(key, 0))
