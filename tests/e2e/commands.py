"""The command line in a process of its own, as a user runs it."""

import os
import subprocess
import sys

from pipeline.config.paths import REPOSITORY


def start(*arguments, cwd=REPOSITORY, python=sys.executable):
    """Starts a command; its output is captured."""
    environment = {**os.environ, "PYTHONPATH": str(cwd)}
    environment.pop("TF_USE_LEGACY_KERAS", None)  # these tests' own, not the user's
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
