"""What it takes to read training rows: until the first batch, an epoch, and memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from benchmarks import peer


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Gets ready; see `measure` for the settings."""
    return lambda _: peer.in_new_process(measure, settings)


def measure(settings: peer.Settings) -> peer.Figures:
    """Reads two epochs in this process, and trains nothing.

    Args:
      settings: `records`, a file; `batch_size`; `shuffle_buffer_size`.

    Returns:
      Seconds to count the rows and to the `first_batch` after that; rows a second of
      the second epoch; MiB `above` what the process had before.
    """
    from modules.data import inputs

    config = inputs.ExamplesConfig(
        input_path=[settings["records"]],
        global_batch_size=settings["batch_size"],
        is_training=True,
        seed=0,
        shuffle_buffer_size=settings["shuffle_buffer_size"],
    )
    before = peer.peak_memory()
    began = time.perf_counter()
    config.examples = inputs.count_examples(config)
    counted = time.perf_counter()
    steps = math.ceil(config.examples / config.global_batch_size)
    batches = iter(inputs.build_batches(config))
    next(batches)
    first = time.perf_counter()
    for _ in range(steps - 1):
        next(batches)
    started = time.perf_counter()
    for _ in range(steps):
        next(batches)
    ended = time.perf_counter()
    return {
        "count": counted - began,
        "first_batch": first - counted,
        "rows_per_second": config.examples / (ended - started),
        "above": peer.peak_memory() - before,
    }


if __name__ == "__main__":
    peer.serve(prepare)
