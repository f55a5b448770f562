"""Finds and kills the worker processes of Beam on this machine."""

import threading
import time

import psutil

_SECONDS = 120


def find(parent=None):
    """Returns the worker processes of a process, this one by default."""
    return [
        child
        for child in (parent or psutil.Process()).children(recursive=True)
        if "pipeline.beam.worker" in child.cmdline()
    ]


def kill_when(is_time, after=0.0):
    """Kills one worker at the time that is given.

    Args:
      is_time: Tells whether it is time, asked as soon as there is a worker.
      after: Seconds from then.

    Returns:
      A list that will have the worker's id.
    """
    killed = []

    def wait():
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            if find() and is_time():
                time.sleep(after)
                worker = find()[0]
                worker.kill()
                killed.append(worker.pid)
                return
            time.sleep(0.05)

    threading.Thread(target=wait, daemon=True).start()
    return killed
