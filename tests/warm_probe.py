"""Forks the serving check's probe from a process that has already imported TensorFlow.

In production the probe is a fresh interpreter, which imports TensorFlow for seconds.
"""

import os
import runpy
import sys

import psutil

from tests import fork_server


class WarmProcess:
    """Runs the probe; has what `ModelProcess` calls of psutil.Popen."""

    def __init__(self, python, connection, directory):
        # Not above: a probe imports this module, and must not import TFX.
        from components.serving_check import probe

        # With tensorflow_text, the probe does not find ops that are unknown without it.
        self._process = fork_server.preload("tensorflow", "tensorflow_text").Process(
            target=_become, args=(probe.__file__, connection, directory)
        )
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        return self._process.exitcode

    def wait(self):
        self._process.join()
        return self._process.exitcode

    def kill(self):
        self._process.kill()  # it may not have its process group yet

    def memory_info(self):
        return psutil.Process(self.pid).memory_info()


def install(monkeypatch):
    """Has the serving check fork its probes until the patch is undone."""
    from components.serving_check import model_process

    monkeypatch.setattr(model_process, "start_process", WarmProcess)


def _become(script, connection, directory):
    os.setsid()
    with open(os.path.join(directory, "probe.log"), "wb") as output:
        for target in (1, 2):
            os.dup2(output.fileno(), target)
    os.chdir(directory)
    os.environ["HOME"] = directory
    sys.argv = [script, str(connection.fileno())]
    runpy.run_path(script, run_name="__main__")
