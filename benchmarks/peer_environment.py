"""The environment of peers whose packages are not ours: PyTorch and Transformers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.rounds import PEERS, ROOT
from modules import fingerprint

_DIRECTORY = ROOT / ".venv-peers"
_LOCK = PEERS / "requirements.lock"


def build() -> str:
    """Makes the environment if it is not there, or not as the lock says.

    PyTorch comes with libraries for GPUs: it takes about 5 GB.

    Returns:
      Its Python.
    """
    python = _DIRECTORY / "bin" / "python"
    stamp = _DIRECTORY / ".installed"
    wanted = fingerprint.of_files([str(_LOCK)])
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return str(python)
    print(f"installing {_LOCK.relative_to(ROOT)} in {_DIRECTORY}", file=sys.stderr)
    _uv("venv", "--clear", "--python", sys.executable, str(_DIRECTORY))
    _uv("pip", "sync", "--require-hashes", "--python", str(python), str(_LOCK))
    stamp.write_text(wanted, encoding="utf-8")
    return str(python)


def _uv(*arguments: str) -> None:
    command = [sys.executable, "-m", "uv", *arguments, "--quiet"]
    subprocess.run(command, check=True, cwd=Path(ROOT))
