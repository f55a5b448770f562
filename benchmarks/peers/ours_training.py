"""Our training, and the machine's rate of matrix multiplication during it."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks import peer
from modules import environment

environment.set_up()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tf_keras  # noqa: E402

from benchmarks.flops import (  # noqa: E402
    CPU_SIZE,
    GPU_SIZE,
    matrix_multiply_rate,
    training_flops,
)
from contracts.task.definition import EVAL_SPLIT, TRAIN_SPLIT  # noqa: E402
from modules.data import inputs, preprocessing  # noqa: E402
from modules.training import computation, experiment  # noqa: E402
from modules.training.fine_tuning_task import FineTuningTask  # noqa: E402
from modules.training.fine_tuning_trainer import FineTuningTrainer, build_trainer  # noqa: E402
from pipeline.config.recipe import load_config  # noqa: E402


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Builds the trainer; see `benchmarks.training` for the settings."""
    trainer = _build(settings)
    steps, warmup = settings["steps"], settings["warmup"]
    # The lengths of the rows of each batch; the seed decides the order of the batches.
    count = warmup + steps * settings["rounds"]
    batches = inputs.build_batches(trainer.config.task.train_data).take(count)
    mask = preprocessing.INPUT_MASK
    sizes = [features[mask].numpy().sum(axis=1) for features, _ in batches]
    trainer.train(tf.constant(warmup))
    step = tf.function(
        lambda batch: trainer.strategy.run(
            trainer.task.train_step, args=(batch, trainer.model, trainer.optimizer)
        ),
        reduce_retracing=True,
        autograph=False,
    )

    size = GPU_SIZE if settings["device"] == "gpu" else CPU_SIZE

    def run_round(number: int) -> peer.Figures:
        first = warmup + number * steps
        lengths = sizes[first : first + steps]
        rates = [matrix_multiply_rate(settings["precision"], size)]
        started = time.perf_counter()
        logs = trainer.train(tf.constant(steps))
        float(logs["training_loss"])  # waits for the device
        seconds = time.perf_counter() - started
        rates.append(matrix_multiply_rate(settings["precision"], size))
        flops = training_flops(trainer.model, np.concatenate(lengths))
        return {
            "rows_per_second": sum(map(len, lengths)) / seconds,
            "tokens_per_second": float(np.concatenate(lengths).sum()) / seconds,
            "share": flops / seconds / float(np.mean(rates)),
            "gflops": float(np.mean(rates)) / 1e9,
            "input_share": _input_share(trainer, step, batches=5),
        }

    return run_round


def _build(settings: peer.Settings) -> FineTuningTrainer:
    config = load_config(settings["config"])
    splits = {split: [settings["records"]] for split in (TRAIN_SPLIT, EVAL_SPLIT)}
    dtype = settings["precision"]
    strategy = tf.distribute.OneDeviceStrategy(f"{settings['device']}:0")
    params = experiment.build_experiment(
        config.task,
        config.trainer,
        encoder=settings["encoder"],
        packing=config.preprocessing,
        splits=splits,
        strategy=strategy,
        dtype=dtype,
    )
    if settings["xla"]:
        params = computation.enable_xla(
            params, inputs.fixed_lengths(config.preprocessing)
        )
    tf_keras.utils.set_random_seed(params.trainer.seed)
    with computation.compute_in(dtype), strategy.scope():
        trainer = build_trainer(FineTuningTask(params.task, config.task), params)
    trainer.initialize()
    return trainer


def _input_share(
    trainer: FineTuningTrainer,
    step: Callable[[inputs.Batch], dict[str, tf.Tensor]],
    batches: int,
) -> float:
    """Returns the share of some steps' time that is spent waiting for the batch."""
    waiting = 0.0
    iterator = iter(inputs.build_batches(trainer.config.task.train_data))
    next(iterator)  # a training waits for its first batch once
    step(next(iterator))
    started = time.perf_counter()
    for _ in range(batches):
        requested = time.perf_counter()
        batch = next(iterator)
        waiting += time.perf_counter() - requested
        float(step(batch)["loss"])
    return waiting / (time.perf_counter() - started)


if __name__ == "__main__":
    peer.serve(prepare)
