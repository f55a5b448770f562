"""The virtual environment of the peers that need PyTorch and Transformers."""

from __future__ import annotations

import subprocess
import sys

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
    uv = [sys.executable, "-m", "uv", "--quiet"]
    sync = ["pip", "sync", "--require-hashes", "--python", str(python), str(_LOCK)]
    create = ["venv", "--clear", "--python", sys.executable, str(_DIRECTORY)]
    for command in (create, sync):
        subprocess.run([*uv, *command], check=True, cwd=REPOSITORY)
    stamp.write_text(expected, encoding="utf-8")
    return str(python)
