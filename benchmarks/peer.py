"""A peer's side of `benchmarks.rounds`; it imports nothing but the standard library.

A peer is a process of its own, with packages of its own. It gets ready once, and then
does a round whenever it is told to; between rounds it waits and takes no time from the
others.
"""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import sys
from collections.abc import Callable
from typing import Any

Settings = dict[str, Any]
Figures = dict[str, float]


def serve(prepare: Callable[[Settings], Callable[[int], Figures]]) -> None:
    """Answers the process that started this one, until it hangs up.

    Args:
      prepare: Takes the settings (the command's last argument, as JSON) and returns
        what does a round: it is given the round's number, from 0, and returns figures.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    run_round = prepare(json.loads(sys.argv[-1]))
    print(json.dumps("ready"), file=answers)
    for line in sys.stdin:
        print(json.dumps(run_round(int(line))), file=answers)


def in_new_process(
    measure: Callable[[Settings], Figures], settings: Settings
) -> Figures:
    """Measures in a process of its own, for what happens once in a process.

    Args:
      measure: A function of a module, which the new process imports.
      settings: What it is given.
    """
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measure, settings).result()


def peak_memory() -> float:
    """Returns the most memory that this process had, in MiB.

    Unlike `getrusage`'s, the kernel's figure here starts anew with the program.
    """
    with open("/proc/self/status", encoding="utf-8") as lines:
        (line,) = (line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
