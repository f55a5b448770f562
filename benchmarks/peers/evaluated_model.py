"""An exported model, asked as the Evaluator asks it: serialized Examples, many at once.

Settings: `model`, its directory; `examples`, a TFRecord file; `rows`, of a batch. A
round is one batch; the first rows come again where there are too few.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from benchmarks import peer

SECONDS = "s"
IMPORTS, LOADED, PEAK = "MB of imports", "MB loaded", "MB at most"


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Loads the model."""
    imports = _resident()
    loaded = tf.saved_model.load(settings["model"])
    records = list(tf.data.TFRecordDataset(settings["examples"]).as_numpy_iterator())
    rows = list(itertools.islice(itertools.cycle(records), settings["rows"]))
    before = _resident()

    def run_round(number: int) -> peer.Figures:
        _reset_peak()
        start = time.perf_counter()
        # By way of `loaded`, which alone holds the variables alive.
        outputs = loaded.signatures["serve_examples"](examples=tf.constant(rows))
        answers = {name: output.numpy() for name, output in outputs.items()}
        seconds = time.perf_counter() - start
        counts = {name: len(answer) for name, answer in answers.items()}
        assert set(counts.values()) == {len(rows)}, f"{len(rows)} rows got {counts}"
        return {SECONDS: seconds, IMPORTS: imports, LOADED: before, PEAK: _peak()}

    return run_round


def _resident() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


def _reset_peak() -> None:
    # proc(5): 5 resets the peak of the resident memory to what it is now.
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    peer.serve(prepare)
