"""The virtual environments of peers that do not run in that of the pipeline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from benchmarks.rounds import PEERS
from contracts import fingerprint
from pipeline.config.paths import REPOSITORY

_DIRECTORY = REPOSITORY / ".venv-peers"
_LOCK = PEERS / "requirements.lock"
WITHOUT = click.option(
    "--without-pytorch",
    is_flag=True,
    help="Leave out the peers that need PyTorch, an environment of 5 GB.",
)


def build() -> str:
    """Creates the environment (5 GB) unless it is up to date; returns its Python."""
    python = _DIRECTORY / "bin" / "python"
    stamp = _DIRECTORY / ".installed"
    expected = fingerprint.of_files([str(_LOCK)])
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == expected:
        return str(python)
    print(
        f"installing {_LOCK.relative_to(REPOSITORY)} in {_DIRECTORY}", file=sys.stderr
    )
    _install(_LOCK, _DIRECTORY)
    stamp.write_text(expected, encoding="utf-8")
    return str(python)


def build_runtime(directory: Path) -> str:
    """Creates an environment with what the runtime requires; returns its Python."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    lock = REPOSITORY / "deploy" / "runtime" / "locks" / f"py{version}.lock"
    return _install(lock, directory)


def _install(lock: Path, directory: Path) -> str:
    """Creates an environment from a lock; returns its Python."""
    python = str(directory / "bin" / "python")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    sync = ["pip", "sync", "--require-hashes", "--compile-bytecode", "--python", python]
    create = ["venv", "--clear", "--python", sys.executable, str(directory)]
    for command in (create, [*sync, str(lock)]):
        subprocess.run([*uv, *command], check=True, cwd=REPOSITORY)
    return python
