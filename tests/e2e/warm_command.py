"""Forks commands from a process that has already imported TensorFlow and TFX.

In production each command is a fresh interpreter, which imports them for ten seconds.
This file imports none of our modules: a command imports those of its directory.
"""

import os
import runpy
import signal
import sys

from tests import fork_server

_LIBRARIES = (
    "tfx.v1",
    "tensorflow_text",
    "orbit",
    "official.core.base_trainer",
    "official.modeling.optimization",
    "official.nlp.modeling.models",
)


def start(arguments, output, directory):
    """Starts `python -m pipeline ARGUMENTS` in a directory.

    Args:
      arguments: Its arguments.
      output: The file that gets its stdout and stderr.
      directory: Its working directory, which has our modules.

    Returns:
      The `multiprocessing.Process`.
    """
    output.touch()
    process = fork_server.preload(*_LIBRARIES).Process(
        target=_become, args=([*map(str, arguments)], str(output), str(directory))
    )
    process.start()
    return process


def _become(arguments, output, directory):
    with open(output, "wb") as file:
        for target in (1, 2):
            os.dup2(file.fileno(), target)
    # The server ignores it in `nohup make test &`.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(directory)
    sys.path.insert(0, directory)
    sys.argv = ["", *arguments]
    sys.orig_argv = [sys.executable, "-m", "pipeline", *arguments]
    runpy.run_module("pipeline", run_name="__main__", alter_sys=True)
