"""Forks the serving check's probe from a process that has already imported TensorFlow.

In production the probe is a fresh interpreter, which imports TensorFlow for seconds.
"""

import os
import runpy
import sys

import psutil

from tests import fork_server


class WarmProcess:
    """Runs `python -I SCRIPT ARGUMENTS`; has what supervision calls of psutil.Popen."""

    def __init__(self, command, directory, log):
        _python, _isolated, script, *arguments = command
        open(log, "wb").close()
        # With tensorflow_text, the probe does not find ops that are unknown without it.
        self._process = fork_server.preload("tensorflow", "tensorflow_text").Process(
            target=_become, args=(script, arguments, directory, log)
        )
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        return self._process.exitcode

    def wait(self):
        self._process.join()
        return self._process.exitcode

    def memory_info(self):
        return psutil.Process(self.pid).memory_info()


def install(monkeypatch):
    """Has the serving check fork its probes until the patch is undone."""
    # Not above: a probe imports this module, and must not import TFX.
    from components.serving_check import supervision

    monkeypatch.setattr(supervision, "start_process", WarmProcess)


def _become(script, arguments, directory, log):
    os.setsid()
    with open(log, "wb") as output:
        for target in (1, 2):
            os.dup2(output.fileno(), target)
    os.chdir(directory)
    os.environ["HOME"] = directory
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")
