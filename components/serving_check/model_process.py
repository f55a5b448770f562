"""A clean process that calls models; it is killed if it exceeds its time or memory."""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import psutil
from tfx.utils import io_utils

from components.serving_check import probe
from contracts.settings.serving import ServingConfig

_START_SECONDS = 300  # to import TensorFlow on a busy machine
# The whole environment of the process. It uses the CPU, whatever the machine has.
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_SET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "LANG": "C.UTF-8",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # Otherwise TensorFlow would import Keras 3 and with it matplotlib, which takes a
    # third of its import.
    "TF_USE_LEGACY_KERAS": "1",
}
_LOG = "probe.log"
CANDIDATE = "candidate"  # the name of the model that may be pushed


class ModelError(Exception):
    """A model failed; the text says when and why."""


class ModelProcess:
    """A process that inherits nothing from this project, and calls models.

    Use it as a context manager. It starts with the context, so that it imports
    TensorFlow while the caller does something else.

    Args:
      limits: The limits of the process.
      python: Interpreter of an environment with TensorFlow and tensorflow-text.

    Attributes:
      peak_memory_bytes: Highest observed resident memory of the process.
      loaded: The directories of the loaded models by name.
    """

    def __init__(self, limits: ServingConfig, python: str = sys.executable) -> None:
        self._limits = limits
        self._python = python
        self._stack = contextlib.ExitStack()
        self._deadline = 0.0
        self.peak_memory_bytes = 0
        self.loaded: dict[str, str] = {}

    def __enter__(self) -> ModelProcess:
        self._directory = self._stack.enter_context(tempfile.TemporaryDirectory())
        self._connection, other = multiprocessing.Pipe()
        with other:
            self._process = start_process(self._python, other, self._directory)
        self._stack.enter_context(self._connection)
        self._stack.callback(self._kill)
        self._send("find_unknown_ops", _START_SECONDS, model=None)
        self._is_starting = True
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def limit(
        self,
        seconds: float,
        setting: str = "timeout_seconds",
        start: float | None = None,
    ) -> None:
        """Sets how long all following calls may take together.

        Args:
          seconds: The time.
          setting: The setting that limits it, for errors.
          start: Its start, of `time.monotonic`; None is when the process has started.
        """
        self._wait_for_start()
        self._deadline = (time.monotonic() if start is None else start) + seconds
        self._limit = f"the {seconds:.4g} s of {setting}"

    def find_unknown_ops(self, name: str, model: str) -> list[str]:
        """Copies a model; returns its ops that TensorFlow lacks without its text ops.

        Args:
          name: What other calls name it by.
          model: Directory of the SavedModel, local or remote.

        Raises:
          ModelError: The graph cannot be read.
        """
        directory = self._copy(name, model)
        return self._call("reading the graph", "find_unknown_ops", model=directory)

    def load(self, name: str, model: str) -> dict[str, Any]:
        """Loads a copy of a model; see `probe.load`.

        Args:
          name: What other calls name it by.
          model: Directory of the SavedModel, local or remote.

        Raises:
          ModelError: The model cannot be loaded.
        """
        directory = self._copy(name, model)
        with self._importing():
            self._call("importing tensorflow-text", "import_text")
        phase = f"loading the {'model' if name == CANDIDATE else name}"
        loaded = self._call(phase, "load", name=name, model=directory)
        self.loaded[name] = model
        return loaded

    def unload(self, name: str) -> None:
        """Unloads a model, and deletes its copy."""
        self._call(f"unloading the {name}", "unload", name=name)
        shutil.rmtree(os.path.join(self._directory, name))
        del self.loaded[name]

    def keep(self) -> None:
        """Leaves the process running after the context, for `take_process`.

        The next component in this process need not import TensorFlow and load the model
        again. Only one is kept; it ends with this process, or with `end_kept`.
        """
        end_kept()
        _kept[self] = self._stack.pop_all()

    def call(self, phase: str, operation: str = "call", **arguments: Any) -> Any:
        """Calls a function of `probe`; see there.

        Args:
          phase: What it does, for the error.
          operation: The function.
          **arguments: Its arguments.

        Raises:
          ModelError: The model fails, crashes, or exceeds a limit.
        """
        return self._call(phase, operation, **arguments)

    def _copy(self, name: str, model: str) -> str:
        copy = os.path.join(self._directory, name)
        if not os.path.exists(copy):
            io_utils.copy_dir(model, copy)
        return copy

    def _wait_for_start(self) -> None:
        if self._is_starting:
            deadline = time.monotonic() + _START_SECONDS
            with self._importing():
                self._receive("importing TensorFlow", deadline, f"{_START_SECONDS} s")
            self._is_starting = False

    @contextlib.contextmanager
    def _importing(self) -> Iterator[None]:
        """Raises an error that is not the model's fault as a RuntimeError."""
        try:
            yield
        except ModelError as error:
            raise RuntimeError(
                f"{self._python} cannot import TensorFlow and tensorflow-text, so no "
                f"model can be checked: {error}"
            ) from error

    def _call(self, phase: str, operation: str, **arguments: Any) -> Any:
        self._wait_for_start()
        # The process kills itself only if this one cannot.
        seconds = max(1, int(self._deadline - time.monotonic())) + 60
        self._send(operation, seconds, **arguments)
        return self._receive(phase, self._deadline, self._limit)

    def _send(self, operation: str, seconds: int, **arguments: Any) -> None:
        request = {"operation": operation, "seconds": seconds, "arguments": arguments}
        # A process that has ended is found by `_receive`.
        with contextlib.suppress(OSError):
            self._connection.send_bytes(json.dumps(request).encode())

    def _receive(self, phase: str, deadline: float, limit: str) -> Any:
        """Waits for the response of the process, within its limits."""
        memory, is_done = self._limits.max_memory_bytes, False
        while not is_done:
            with contextlib.suppress(psutil.NoSuchProcess):
                used = self._process.memory_info().rss
                self.peak_memory_bytes = max(self.peak_memory_bytes, used)
            is_done = self._connection.poll(0.05)
            if self.peak_memory_bytes > memory:
                self._kill()
                raise ModelError(
                    f"{phase} took {_show(self.peak_memory_bytes)} of memory, but "
                    f"max_memory_bytes allows {_show(memory)}, TensorFlow itself "
                    "included"
                )
            if not is_done and time.monotonic() > deadline:
                self._kill()
                raise ModelError(f"{phase} did not end within {limit}")
        try:
            response = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            status = self._process.wait()
            name = f"died of {signal.Signals(-status).name}" if status < 0 else "ended"
            raise ModelError(
                f"the process {name} while {phase}: {self._read_log()}"
            ) from error
        if "error" in response:
            raise ModelError(f"{phase} failed: {response['error']}")
        return response["value"]

    def _read_log(self) -> str:
        path = os.path.join(self._directory, _LOG)
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return lines[-1][:500] if lines else "it wrote nothing"

    def _kill(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(psutil.NoSuchProcess):
                self._process.kill()
        self._process.wait()


_kept: dict[ModelProcess, contextlib.ExitStack] = {}


def take_process(
    model: str, limits: ServingConfig, stack: contextlib.ExitStack
) -> ModelProcess:
    """Returns the process that was kept with a candidate, or a new one.

    Args:
      model: Directory of the candidate.
      limits: The limits of a new process.
      stack: Ends the process.
    """
    for process in _kept:
        if process.loaded.get(CANDIDATE) == model:
            stack.push(_kept.pop(process))
            return process
    return stack.enter_context(ModelProcess(limits))


@atexit.register
def end_kept() -> None:
    """Ends the process that was kept, if there is one."""
    for process in [*_kept]:
        _kept.pop(process).close()


def start_process(python: str, connection: Connection, directory: str) -> psutil.Popen:
    """Starts the probe in a process group with a minimal environment.

    Args:
      python: The interpreter.
      connection: Its end of the connection.
      directory: The working directory and home, and of its log.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    with open(os.path.join(directory, _LOG), "wb") as output:
        return psutil.Popen(
            [python, "-I", probe.__file__, str(connection.fileno())],
            cwd=directory,
            env={**inherited, **_SET, "HOME": directory},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[connection.fileno()],
        )


def _show(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
