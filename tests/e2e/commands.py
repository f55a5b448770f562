"""Runs the command line in a new process, as a user does."""

import os
import subprocess
import sys

from pipeline.config.paths import REPOSITORY


def run(*arguments, cwd=REPOSITORY, python=sys.executable):
    """Runs a command to its end; its output is captured."""
    environment = {**os.environ, "PYTHONPATH": str(cwd)}
    environment.pop("TF_USE_LEGACY_KERAS", None)  # set by these tests, not by a user
    return subprocess.run(
        [python, "-m", "pipeline", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
