"""The virtual environment with ONNX Runtime, which belongs to no stack."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from contracts import fingerprint
from contracts.errors import UsageError
from contracts.storage import file_lock, files

_LOCK = Path(__file__).with_name("onnxruntime.lock")
_INSTALLED = ".installed"


def find_python(report: Callable[[str], None]) -> str:
    """Returns a Python that has ONNX Runtime: this one, or that of an environment.

    The environment is created once for each version of Python and each lock, in
    `$XDG_CACHE_HOME` or `~/.cache`.

    Args:
      report: Called with a line for the user before an installation.

    Raises:
      UsageError: The environment cannot be created.
    """
    if importlib.util.find_spec("onnxruntime"):
        return sys.executable
    key = fingerprint.of_text(fingerprint.of_file(_LOCK), sys.version)[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "bert-fine-tuning-pipeline" / f"onnxruntime-{key}"
    python = directory / "bin" / "python"
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        lock = directory.with_suffix(".lock")
        with file_lock.hold(lock, f"process {os.getpid()}", wait=report):
            if (directory / _INSTALLED).is_file():
                return str(python)
            report(f"installing ONNX Runtime in {directory}, once")
            uv = [sys.executable, "-m", "uv", "--quiet"]
            create = ["venv", "--clear", "--python", sys.executable, str(directory)]
            sync = ["pip", "sync", "--require-hashes", "--python", str(python)]
            for command in (create, [*sync, str(_LOCK)]):
                subprocess.run([*uv, *command], check=True, stderr=subprocess.PIPE)
            files.write(str(directory / _INSTALLED), "")
    except (subprocess.CalledProcessError, OSError) as error:
        reason = str(error)
        if isinstance(error, subprocess.CalledProcessError):
            lines = error.stderr.decode(errors="replace").strip().splitlines()
            reason = lines[-1].strip() if lines else reason
        raise UsageError(
            str(directory),
            f"ONNX Runtime cannot be installed: {reason}",
            advice="leave `examples` and `is_int8` out, or install onnxruntime in the "
            "environment of this command",
            name="E-network-failed",
        ) from error
    return str(python)
