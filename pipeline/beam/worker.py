"""A Beam worker process that ends with the process that it works for.

Beam's own waits on where that was killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from apache_beam.runners.worker import sdk_worker_main

from modules import environment

_POLL_SECONDS = 1.0


def main(arguments: list[str]) -> None:
    """Works until there is no more to do.

    Args:
      arguments: The program, and the id of the process that it works for.
    """
    environment.set_up()
    parent = int(arguments[1])
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sdk_worker_main.main(arguments)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv)
