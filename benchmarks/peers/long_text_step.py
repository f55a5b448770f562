"""Training steps of long texts: seconds, and the peak memory of the process."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

from benchmarks import peer
from modules import environment

environment.set_up()

import tensorflow as tf  # noqa: E402
import tf_keras  # noqa: E402

from contracts.task.definition import TaskConfig  # noqa: E402
from modules.data import inputs, preprocessing  # noqa: E402
from modules.training.fine_tuning_task import (  # noqa: E402
    FineTuningConfig,
    FineTuningTask,
)


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Builds model and batch; see `benchmarks.long_text` for the settings."""
    params = FineTuningConfig(init_checkpoint=settings["encoder"], **settings["model"])
    task = FineTuningTask(params, TaskConfig(text_columns=["text"]))
    tf_keras.utils.set_random_seed(0)
    model = task.build_model()
    optimizer = tf_keras.optimizers.AdamW(1e-5)
    step = tf.function(
        lambda batch: task.train_step(batch, model, optimizer), autograph=False
    )
    rows, tokens = settings["rows"], settings["tokens"]
    features = dict.fromkeys(
        preprocessing.ENCODER_INPUTS, tf.ones([rows, tokens], tf.int32)
    )
    features[preprocessing.INPUT_TYPE_IDS] = tf.zeros([rows, tokens], tf.int32)
    targets = {
        inputs.LABELS: tf.zeros([rows], tf.int64),
        inputs.WEIGHTS: tf.ones([rows]),
    }
    before = _peak()
    float(step((features, targets))["loss"])

    def run_round(number: int) -> peer.Figures:
        started = time.perf_counter()
        float(step((features, targets))["loss"])
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "gigabytes": _peak() - before}

    return run_round


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


if __name__ == "__main__":
    peer.serve(prepare)
