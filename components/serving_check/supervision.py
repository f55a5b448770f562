"""Runs the probe, and kills it if it exceeds its time or memory."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import time
from typing import Any

import psutil

from components.serving_check import probe
from components.serving_check.request import ServingRequest
from contracts.settings.serving import ServingConfig

logger = logging.getLogger(__name__)

# They have the time limit for themselves, and their memory does not count.
_ADDITIONAL = (probe.COMPARING, probe.SWAPPING, probe.PERMUTING)
_START_SECONDS = 300  # to import TensorFlow on a busy machine
# The whole environment of the probe. It uses the CPU, whatever the machine has.
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_SET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "LANG": "C.UTF-8",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # Otherwise TensorFlow would import Keras 3 and with it matplotlib, which takes a
    # third of its import.
    "TF_USE_LEGACY_KERAS": "1",
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of the probe.

    Attributes:
      response: The response of the probe; see `probe`.
      failure: Why the probe did not finish what decides; None if it did.
      not_swapped: Why rows with swapped words have no predictions; None if they have.
      peak_memory_bytes: Highest observed resident memory of the process until it had
        called the signatures.
    """

    response: dict[str, Any]
    failure: str | None
    not_swapped: str | None
    peak_memory_bytes: int


def run_probe(
    model: str,
    request: ServingRequest,
    directory: str,
    python: str = sys.executable,
    champion: str | None = None,
) -> Outcome:
    """Runs the probe in a process that inherits nothing from this project.

    Args:
      model: Directory of the SavedModel, local.
      request: The request to send, with the limits of the process.
      directory: The process's working directory and home.
      python: Interpreter of an environment with TensorFlow and tensorflow-text.
      champion: Directory of the SavedModel to time beside the model, local; or None.

    Raises:
      RuntimeError: TensorFlow or tensorflow-text cannot be imported, which is not the
        model's fault.
    """
    request_path, response_path, log_path = (
        os.path.join(directory, name)
        for name in ("request.json", "response.json", "probe.log")
    )
    limits = request.settings.serving
    parts = 1 + len(_ADDITIONAL)
    content = {
        "model": model,
        "champion": champion,
        "signatures": [signature.model_dump() for signature in request.signatures],
        "timeout_seconds": _START_SECONDS + parts * limits.timeout_seconds,
    }
    with open(request_path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    command = [python, "-I", probe.__file__, request_path, response_path]
    process = start_process(command, directory, log_path)
    try:
        killed, peak = _watch(process, response_path, limits)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    response = _read_response(response_path)
    with open(log_path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    log = lines[-1][:500] if lines else "it wrote nothing"
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
    not_swapped = None
    if failure and phase in (probe.SWAPPING, probe.PERMUTING):
        if phase == probe.SWAPPING:
            not_swapped = failure
        logger.warning("the report lacks a measurement: %s", failure)
        failure = None
    return Outcome(response, failure, not_swapped, peak)


def start_process(command: list[str], directory: str, log: str) -> psutil.Popen:
    """Starts a process group with a minimal environment.

    Args:
      command: The command line.
      directory: The working directory and home.
      log: File for standard output and error.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    with open(log, "wb") as output:
        return psutil.Popen(
            command,
            cwd=directory,
            env={**inherited, **_SET, "HOME": directory},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _watch(
    process: psutil.Popen, response_path: str, limits: ServingConfig
) -> tuple[str | None, int]:
    """Waits until the process ends or exceeds a limit.

    Returns:
      The limit that was exceeded, or None; and the highest memory in bytes.
    """
    peak, deadline, timed = 0, time.monotonic() + _START_SECONDS, ""
    while process.poll() is None:
        memory = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            memory = process.memory_info().rss
        phase = _read_response(response_path).get("phase", probe.IMPORTING)
        if phase not in _ADDITIONAL:
            peak = max(peak, memory)
        if phase not in (probe.IMPORTING, probe.READING):
            part = phase if phase in _ADDITIONAL else probe.LOADING
            if part != timed:
                timed, deadline = (
                    part,
                    time.monotonic() + limits.timeout_seconds,
                )
        if peak > limits.max_memory_bytes:
            reason = (
                f"{phase} took {_show(peak)} of memory, but max_memory_bytes allows "
                f"{_show(limits.max_memory_bytes)}, TensorFlow itself included"
            )
            return reason, peak
        if time.monotonic() > deadline:
            limit = f"{_START_SECONDS} s"
            if timed:
                limit = f"the {limits.timeout_seconds} s of timeout_seconds"
            return f"{phase} did not end within {limit}", peak
        time.sleep(0.05)
    return None, peak


def _show(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _read_response(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)
