"""A peer's side of `benchmarks.rounds`; imports nothing but the standard library.

A peer is a process with its own packages. It prepares once, then runs a round for
each line on standard input. Between rounds it waits and uses no CPU.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Settings = dict[str, Any]
Figures = dict[str, float]


def serve(prepare: Callable[[Settings], Callable[[int], Figures]]) -> None:
    """Runs the rounds that the parent process requests, until it closes the pipe.

    Args:
      prepare: Takes the settings (the last command-line argument, as JSON) and returns
        a function that runs a round: it takes the round's number, from 0, and returns
        its figures.
    """
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print to standard output
    run_round = prepare(json.loads(sys.argv[-1]))
    print(json.dumps("ready"), file=results)
    for line in sys.stdin:
        print(json.dumps(run_round(int(line))), file=results)
