"""Runs the probe, and ends it where it takes too much time or memory."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil

from components.serving_check import probe

# What importing TensorFlow may take on a machine that is busy with something else.
_START_SECONDS = 300
_POLL_SECONDS = 0.05
# All that the probe gets of the environment. No GPU: the answers must be the
# processor's on any machine.
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_SET = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", "LANG": "C.UTF-8"}


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a model may take.

    Attributes:
      memory_bytes: Resident memory of the process, TensorFlow's own included.
      seconds: To load and to answer everything; TensorFlow's start is not counted.
    """

    memory_bytes: int
    seconds: int


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of the probe.

    Attributes:
      response: What it wrote; see probe.py.
      failure: Why it did not come to its end; None if it did.
      peak_memory_bytes: Highest resident memory of the process that was seen.
    """

    response: dict[str, Any]
    failure: str | None
    peak_memory_bytes: int


def run_probe(
    request: dict[str, Any],
    directory: str,
    limits: Limits,
    python: str = sys.executable,
) -> Outcome:
    """Runs the probe in a process that knows neither this project nor its caller.

    Args:
      request: For probe.py, without `timeout_seconds`.
      directory: An empty one, which becomes the process's working directory.
      limits: Beyond which the process is killed.
      python: The interpreter; its environment must have TensorFlow and
        tensorflow-text.

    Raises:
      RuntimeError: TensorFlow or tensorflow-text cannot be imported, which says
        nothing about the model.
    """
    request_path, response_path, log_path = (
        os.path.join(directory, name)
        for name in ("request.json", "response.json", "probe.log")
    )
    with open(request_path, "w") as file:
        json.dump({**request, "timeout_seconds": _START_SECONDS + limits.seconds}, file)
    command = [python, "-I", probe.__file__, request_path, response_path]
    with _started(command, directory, log_path) as process:
        killed, peak = _watch(process, response_path, limits)
    status = process.returncode
    response, log = _read_response(response_path), _read_log(log_path)
    phase = response.get("phase", probe.IMPORTING)
    if phase == probe.IMPORTING and (killed or status):
        raise RuntimeError(
            f"{python} failed at {phase}, so no model can be checked: "
            f"{killed or response.get('error') or log}"
        )
    failure = killed
    if not killed and status < 0:
        name = signal.Signals(-status).name
        failure = f"the process died of {name} while {phase}: {log}"
    elif not killed and status > 0:
        failure = f"{phase} failed: {response.get('error') or log}"
    return Outcome(response, failure, peak)


@contextlib.contextmanager
def _started(command: list[str], directory: str, log: str) -> Iterator[psutil.Popen]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    with open(log, "wb") as output:
        process = psutil.Popen(
            command,
            cwd=directory,
            env={**inherited, **_SET, "HOME": directory},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _watch(
    process: psutil.Popen, response_path: str, limits: Limits
) -> tuple[str | None, int]:
    """Waits for the end, or says why not; and the highest memory."""
    peak, deadline, loading = 0, time.monotonic() + _START_SECONDS, False
    while process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            peak = max(peak, process.memory_info().rss)
        phase = _read_response(response_path).get("phase", probe.IMPORTING)
        if not loading and phase not in (probe.IMPORTING, probe.READING):
            loading, deadline = True, time.monotonic() + limits.seconds
        reason = None
        if peak > limits.memory_bytes:
            reason = (
                f"{phase} took {_show(peak)} of memory, and max_memory_bytes allows "
                f"{_show(limits.memory_bytes)}, TensorFlow itself included"
            )
        elif time.monotonic() > deadline:
            reason = f"{phase} did not end within " + (
                f"the {limits.seconds} s of timeout_seconds"
                if loading
                else f"{_START_SECONDS} s"
            )
        if reason:
            return reason, peak
        time.sleep(_POLL_SECONDS)
    return None, peak


def _show(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _read_response(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return json.load(file)


def _read_log(path: str) -> str:
    """Returns the last line that a process wrote."""
    with open(path, errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1][:500] if lines else "it wrote nothing"
