"""Runs peers side by side: in turn, round by round, on the same work and machine.

A machine's speed drifts, and that of a shared one jumps: what was measured one after
the other does not compare. Here each round runs every peer once, in an order that moves
on from round to round, and ratios are taken within a round.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import psutil

from benchmarks.peer import Figures, Settings

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "benchmarks" / "peers"
THREADS = 2
T = TypeVar("T")


class PeerError(Exception):
    """A peer that ended, or did not say what it was asked."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """Something that is measured.

    Attributes:
      name: What it is called in tables.
      script: File name in `benchmarks/peers`.
      settings: What its `prepare` is given.
      python: The Python that has its packages.
    """

    name: str
    script: str
    settings: Settings = dataclasses.field(default_factory=dict)
    python: str = sys.executable


class _Process:
    def __init__(self, peer: Peer, environment: Mapping[str, str]) -> None:
        self.peer = peer
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (`end` closes it)
        self._process = subprocess.Popen(
            [peer.python, str(PEERS / peer.script), json.dumps(peer.settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env=dict(environment),
        )
        self._read()  # it is ready

    def run_round(self, number: int) -> Figures:
        pipe: IO[str] | None = self._process.stdin
        assert pipe is not None
        print(number, file=pipe, flush=True)
        figures: Figures = self._read()
        return figures

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and said why
            self._process.stdin.close()
        self._process.wait()
        self._errors.close()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._errors.seek(0)
        tail = self._errors.read()[-3000:]
        raise PeerError(
            f"{self.peer.name} ({self.peer.script}) ended with "
            f"{self._process.wait()}; the end of what it said:\n{tail}"
        )


def run_rounds(
    peers: Sequence[Peer], rounds: int, *, threads: int = THREADS
) -> dict[str, list[Figures]]:
    """Runs all peers in each round, and tells on stderr how it goes.

    Args:
      peers: What is measured. All get ready before the first round.
      rounds: How often each is run.
      threads: That each may compute with.

    Returns:
      The figures of each peer, by its name, a round each.

    Raises:
      PeerError: A peer failed.
    """
    results: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    with contextlib.ExitStack() as stack:
        processes = []
        for peer in peers:
            _tell(f"{peer.name}: gets ready")
            processes.append(stack.enter_context(_running(peer, threads)))
        for number in range(rounds):
            for process in in_turn(processes, number):
                figures = process.run_round(number)
                results[process.peer.name].append(figures)
                shown = ", ".join(
                    f"{key} {value:.4g}" for key, value in figures.items()
                )
                _tell(f"round {number + 1}/{rounds} {process.peer.name}: {shown}")
    return results


def in_turn(peers: Sequence[T], number: int) -> list[T]:
    """Returns what takes part in a round, in the round's own order.

    Args:
      peers: In the order of the first round.
      number: Of the round, from 0.
    """
    first = number % len(peers)
    return [*peers[first:], *peers[:first]]


@contextlib.contextmanager
def _running(peer: Peer, threads: int) -> Iterator[_Process]:
    environment = {
        **os.environ,
        # A script finds `benchmarks`, but no other Python's packages.
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": str(threads),
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "HF_HUB_OFFLINE": "1",
    }
    process = _Process(peer, environment)
    try:
        yield process
    finally:
        process.end()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Spread:
    """What a figure came to over rounds.

    Attributes:
      median: The middle one.
      low: The smallest.
      high: The largest.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Returns the spread of values."""
        return cls(statistics.median(values), min(values), max(values))

    def format(self, digits: int) -> str:
        """Returns `median (low to high)`.

        Args:
          digits: After the decimal point.
        """
        low, median, high = (
            f"{value:.{digits}f}" for value in (self.low, self.median, self.high)
        )
        return f"{median} ({low} to {high})"


def spread(results: Sequence[Figures], figure: str) -> Spread:
    """Returns the spread of one figure over the rounds of a peer."""
    return Spread.of([figures[figure] for figures in results])


def ratio(ours: Sequence[Figures], theirs: Sequence[Figures], figure: str) -> Spread:
    """Returns the spread of ours divided by theirs, each within its round."""
    pairs = zip(ours, theirs, strict=True)
    return Spread.of([mine[figure] / other[figure] for mine, other in pairs])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def describe_machine() -> str:
    """Returns what the figures were measured on, in a line."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{len(names)} cores of {names[0]}, {memory:.0f} GiB, Python "
        f"{platform.python_version()}, {THREADS} threads"
    )
