"""A Beam worker process that ends when its parent process does.

Beam's own worker never ends if its parent was killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from apache_beam.runners.worker import sdk_worker_main

from modules import environment
from pipeline.beam.signatures import cache_signatures

_POLL_SECONDS = 1.0


def main(arguments: list[str]) -> None:
    """Runs the worker until the job ends.

    Args:
      arguments: The program, and the id of the parent process.
    """
    environment.set_up()
    cache_signatures()
    parent = int(arguments[1])
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sdk_worker_main.main(arguments)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv)
