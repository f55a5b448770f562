"""A run that trains and pushes a second version, to be disturbed while it goes on."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import load_config
from pipeline.operations.record import read_progress
from tests import tiny
from tests.e2e import warm_command

SECONDS = 300


class OutputDirectory:
    """An output directory with one pushed version, and new data for the next run.

    Args:
      directory: A new directory.
    """

    def __init__(self, directory: Path) -> None:
        trainer = {
            "epochs": 10,
            "batch_size": 16,
            "learning_rate": 0.001,
            "checkpoint_interval": 5,
            "mixed_precision": "float32",
        }
        splits = ("train", "eval")
        self.recipe = tiny.write_config(
            directory / "recipe.yaml",
            splits=splits,
            trainer=trainer,
            serving={"rows": 4},
        )
        self._data = tiny.write_tables(directory / "new", rows=64, splits=splits)
        self.paths = OutputPaths.of(load_config(self.recipe))

    def start(self) -> DisturbedRun:
        """Starts the first run."""
        return self._start()

    def start_next(self, log: str = "log", **environment: str) -> DisturbedRun:
        """Starts a run on the new data.

        Args:
          log: The name of the file with its output.
          **environment: Further environment variables, for a new interpreter.
        """
        return self._start("--set", f"data.source={self._data}", log=log, **environment)

    def _start(self, *settings: str, log: str = "log", **environment: str):  # type: ignore[no-untyped-def]
        command = ["run", "--config", str(self.recipe), *settings]
        output = self.recipe.parent / log
        output.touch()
        if environment:
            fork = multiprocessing.get_context("fork")
            process = fork.Process(target=_execute, args=(command, output, environment))
            process.start()
        else:
            process = warm_command.start(command, output, REPOSITORY)
        return DisturbedRun(self.paths, process, output)


def _execute(command: list[str], output: Path, environment: dict[str, str]) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.chdir(REPOSITORY)
    variables = {**os.environ, **environment}
    os.execve(sys.executable, [sys.executable, "-m", "pipeline", *command], variables)


class DisturbedRun:
    """A run in a process of its own.

    Args:
      paths: Its output directory.
      process: Its `multiprocessing.Process`.
      log: The file with its output.
    """

    def __init__(self, paths: OutputPaths, process, log: Path) -> None:  # type: ignore[no-untyped-def]
        self.process = process
        self._paths, self._log = paths, log
        self._earlier = set(paths.runs.glob("*"))

    @property
    def running(self) -> str:
        """The component that runs; empty before the first."""
        for record in set(self._paths.runs.glob("*")) - self._earlier:
            for component in read_progress(record).components:
                if component.state == "running":
                    return component.name
        return ""

    def wait_for(self, component: str) -> None:
        """Waits until a component runs."""
        deadline = time.monotonic() + SECONDS
        while self.running != component:
            assert self.process.is_alive(), self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the process and its children, as a machine that stops."""
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            process = psutil.Process(self.process.pid)
            for each in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Waits for the end; returns the exit status and what was printed."""
        self.process.join(SECONDS)
        assert self.process.exitcode is not None, self._log.read_text()
        return self.process.exitcode, self._log.read_text()


@contextlib.contextmanager
def locked(database: Path) -> Iterator[None]:
    """Locks an SQLite database as another process does that writes to it."""
    with contextlib.closing(
        sqlite3.connect(database, isolation_level=None, timeout=30)
    ) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


class Clock:
    """A clock that a test moves, of the processes with its environment.

    The kernel's times of files do not move.

    Args:
      directory: A directory for the library.

    Attributes:
      environment: Environment variables.
    """

    def __init__(self, directory: Path) -> None:
        library, self._offset = directory / "clock.so", directory / "offset"
        source = Path(__file__).with_name("clock.c")
        command = ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"]
        subprocess.run(command, check=True)
        self._offset.write_bytes(ctypes.c_int64(0))
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAULT_CLOCK": str(self._offset),
        }

    def move(self, seconds: int) -> None:
        """Sets the difference to the true time."""
        with open(self._offset, "r+b") as file:  # not shorter: processes map it
            file.write(ctypes.c_int64(seconds))
