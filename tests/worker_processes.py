"""Finds and kills the worker processes of Beam on this machine."""

import threading
import time

import psutil

_SECONDS = 120
_WORKER = "apache_beam.runners.worker.sdk_worker_main"  # not of its shell, one word


def find(parent=None):
    """Returns the worker processes of a process, by default of this one."""
    children = (parent or psutil.Process()).children(recursive=True)
    return [child for child in children if _WORKER in _command(child)]


def _command(process):
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it ended meanwhile
        return []


def kill_when(condition, after=0.0):
    """Kills one worker, once there is one and a condition holds.

    Args:
      condition: Called until it returns true.
      after: Seconds to wait then.

    Returns:
      A list that gets the worker's process id.
    """
    killed = []

    def wait():
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            if find() and condition():
                time.sleep(after)
                worker = find()[0]
                worker.kill()
                killed.append(worker.pid)
                return
            time.sleep(0.05)

    threading.Thread(target=wait, daemon=True).start()
    return killed
