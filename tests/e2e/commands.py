"""Runs the command line in a new process, as a user does."""

import os
import subprocess
import sys

from pipeline.config.paths import REPOSITORY


def start(*arguments, cwd=REPOSITORY, python=sys.executable):
    """Starts a command; its output is captured."""
    environment = {**os.environ, "PYTHONPATH": str(cwd)}
    environment.pop("TF_USE_LEGACY_KERAS", None)  # set by these tests, not by a user
    return subprocess.Popen(
        [python, "-m", "pipeline", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(*arguments, **options):
    """Runs a command to its end."""
    process = start(*arguments, **options)
    output, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
