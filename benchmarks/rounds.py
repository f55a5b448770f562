"""Runs peers in turn, round by round, on the same work and machine.

The speed of a machine changes with time, so measurements of different times are not
comparable. Each round runs every peer once, in an order that rotates, and ratios are
computed within a round.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from benchmarks.peer import Figures, Settings
from contracts import cpu
from pipeline.config.paths import REPOSITORY

PEERS = REPOSITORY / "benchmarks" / "peers"
THREADS = 2
T = TypeVar("T")


class PeerError(Exception):
    """A peer ended before its result."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """A process to measure.

    Attributes:
      name: Its name in tables.
      script: File name in `benchmarks/peers`.
      settings: The argument of the script's `prepare`.
      python: The Python that has the script's packages.
    """

    name: str
    script: str
    settings: Settings = dataclasses.field(default_factory=dict)
    python: str = sys.executable


class Process:
    """A running peer that has prepared."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (`end` closes it)
        self._process = subprocess.Popen(
            [peer.python, str(PEERS / peer.script), json.dumps(peer.settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=REPOSITORY,
            env={
                **os.environ,
                # A script can import `benchmarks`, but no packages of this Python.
                "PYTHONPATH": str(REPOSITORY),
                "OMP_NUM_THREADS": str(THREADS),
                "TF_NUM_INTRAOP_THREADS": str(THREADS),
                "TF_NUM_INTEROP_THREADS": str(THREADS),
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "HF_HUB_OFFLINE": "1",
            },
        )
        self._read()  # "ready"

    def run_round(self, number: int) -> Figures:
        """Runs a round; returns its figures."""
        assert self._process.stdin is not None
        print(number, file=self._process.stdin, flush=True)
        figures: Figures = self._read()
        return figures

    def end(self) -> None:
        """Ends the process."""
        # Closes the pipes; the process may have ended before.
        with self._errors, contextlib.suppress(BrokenPipeError), self._process:
            pass

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._errors.seek(0)
        raise PeerError(
            f"{self.peer.name} ({self.peer.script}) ended with status "
            f"{self._process.wait()}; its last output:\n{self._errors.read()[-3000:]}"
        )


def run_rounds(peers: Sequence[Peer], count: int) -> dict[str, list[Figures]]:
    """Runs all peers in each round, and reports progress on standard error.

    Args:
      peers: The peers, which all prepare before the first round.
      count: Number of rounds.

    Returns:
      The figures of each round by the peer's name.

    Raises:
      PeerError: A peer failed.
    """
    results: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    with contextlib.ExitStack() as stack:
        processes = []
        for peer in peers:
            _report(f"{peer.name}: prepares")
            processes.append(stack.enter_context(_running(peer)))
        for number in range(count):
            for process in in_turn(processes, number):
                figures = process.run_round(number)
                results[process.peer.name].append(figures)
                shown = ", ".join(
                    f"{key} {value:.4g}" for key, value in figures.items()
                )
                _report(f"round {number + 1}/{count} {process.peer.name}: {shown}")
    return results


def in_turn(peers: Sequence[T], number: int) -> list[T]:
    """Returns the peers in the order of a round.

    Args:
      peers: The peers in the order of the first round.
      number: The number of the round, from 0.
    """
    first = number % len(peers)
    return [*peers[first:], *peers[:first]]


@contextlib.contextmanager
def _running(peer: Peer) -> Iterator[Process]:
    process = Process(peer)
    try:
        yield process
    finally:
        process.end()


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median, smallest and largest value of a figure over rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Returns the spread of values."""
        return cls(statistics.median(values), min(values), max(values))

    def format(self, digits: int) -> str:
        """Returns `median (low to high)` with this number of decimals."""
        values = (self.median, self.low, self.high)
        median, low, high = (f"{value:.{digits}f}" for value in values)
        return f"{median} ({low} to {high})"


def spread(results: Sequence[Figures], figure: str) -> Spread:
    """Returns the spread of a figure over the rounds of a peer."""
    return Spread.of([figures[figure] for figures in results])


def ratio(ours: Sequence[Figures], theirs: Sequence[Figures], figure: str) -> Spread:
    """Returns the spread of ours divided by theirs, each within its round."""
    pairs = zip(ours, theirs, strict=True)
    return Spread.of([mine[figure] / other[figure] for mine, other in pairs])


def difference(
    ours: Sequence[Figures], theirs: Sequence[Figures], figure: str
) -> Spread:
    """Returns the spread of ours minus theirs, each within its round."""
    pairs = zip(ours, theirs, strict=True)
    return Spread.of([mine[figure] - other[figure] for mine, other in pairs])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def describe_machine() -> str:
    """Returns a line about this machine, to print above the figures."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    flags = cpu.read_flags()
    # These flags of a CPU decide the rate of matrix products.
    known = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16")
    shown = " ".join(flag for flag in known if flag in flags)
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{len(names)} cores of {names[0]} ({shown}), "
        f"{memory:.0f} GiB, Python {platform.python_version()}, {THREADS} threads"
    )
