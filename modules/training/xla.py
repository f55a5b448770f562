"""Whether XLA compiles the training step: measured, recorded, and set."""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import Any

import tensorflow as tf

from contracts.storage import files, uris
from modules.data import inputs
from modules.data.preprocessing import ENCODER_INPUTS, INPUT_MASK
from modules.training import precision, strategies
from modules.training.experiment import ExperimentConfig
from modules.training.fine_tuning_task import FineTuningTask

_FILE = "xla.json"
_ROUNDS = 5

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of forward and backward pass of a batch.

    Attributes:
      plain: Seconds of a step by TensorFlow's kernels.
      compiled: Seconds of a step that XLA compiled.
      compilation: Seconds to compile it for one length.
    """

    plain: float
    compiled: float
    compilation: float


@dataclasses.dataclass(frozen=True)
class Compilation:
    """Whether XLA compiles the training step.

    Attributes:
      setting: `trainer.xla`.
      is_enabled: The choice.
      times: The measurement that it is based on; None if nothing was measured.
    """

    setting: str
    is_enabled: bool
    times: Times | None = None


def choose(
    setting: str,
    params: ExperimentConfig,
    task: FineTuningTask,
    strategy: tf.distribute.Strategy,
    directory: str,
    lengths: list[int],
) -> ExperimentConfig:
    """Chooses whether XLA compiles the training step, and records it.

    `auto` measures on a single GPU: XLA is used if the steps of the training save more
    time than its compilations take. It is off on a CPU, where it gains nothing, and on
    several GPUs, whose all-reduce it cannot compile. It is also off if a batch of long
    texts has more windows than `windows_in_memory`. A TPU compiles by itself. A resumed
    training keeps the choice if it can.

    Args:
      setting: Setting `trainer.xla`.
      params: The experiment.
      task: Its task.
      strategy: The distribution strategy.
      directory: Directory of the training's checkpoints.
      lengths: Lengths in tokens that batches are padded to if XLA is used.

    Returns:
      The experiment, with XLA and these lengths if it is used.

    Raises:
      ValueError: `xla` is `on` with a strategy that cannot compile.
    """
    can_compile = isinstance(strategy, tf.distribute.OneDeviceStrategy)
    if setting == "on" and not (can_compile or strategies.is_tpu(strategy)):
        raise ValueError(
            "trainer.xla is on, which needs a single device and not "
            f"{type(strategy).__name__}; set it to auto or off"
        )
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    is_measured = setting == "auto" and can_compile and has_gpu
    limit, windows = params.task.windows_in_memory, 0
    if params.task.window:
        tokens = params.task.train_data.global_batch_size * lengths[-1]
        windows = tokens // params.task.window
    recorded = read(directory)
    if recorded:
        chosen = Compilation(recorded["setting"], recorded["is_enabled"])
    elif is_measured and windows > limit:
        logger.info(
            "trainer.xla: auto is off, because XLA computes all %d windows of a batch "
            "at once, and preprocessing.long_text.windows_in_memory is %d",
            windows,
            limit,
        )
        chosen = Compilation(setting, False)
    elif is_measured:
        dtype = params.runtime.mixed_precision_dtype
        with precision.compute_in(dtype), strategy.scope():
            times = measure(task, params.task.train_data.global_batch_size, lengths)
        chosen = of_times(times, params.trainer.train_steps, len(lengths))
    else:
        chosen = Compilation(setting, setting == "on")
    measured = chosen.times
    logger.info(
        "trainer.xla %s: %s%s",
        chosen.setting,
        "on" if chosen.is_enabled else "off",
        f"; a step takes {measured.plain:.3g} s, compiled {measured.compiled:.3g} s; a "
        f"compilation takes {measured.compilation:.3g} s"
        if measured
        else "",
    )
    if not recorded and strategies.is_chief(strategy):
        files.write_record(uris.join(directory, _FILE), dataclasses.asdict(chosen))
    # A resumed training may be on another machine.
    is_used = can_compile and (has_gpu or setting == "on")
    return enable(params, lengths) if chosen.is_enabled and is_used else params


def enable(params: ExperimentConfig, lengths: list[int]) -> ExperimentConfig:
    """Returns an experiment whose training step XLA compiles.

    Args:
      params: The experiment.
      lengths: Lengths in tokens that its batches are padded to.
    """
    data = params.task.train_data.replace(lengths=lengths)
    return params.replace(task=params.task.replace(xla=True, train_data=data))


def read(directory: str) -> dict[str, Any] | None:
    """Returns the `Compilation` recorded in a training's directory, or None."""
    return files.read_record(uris.join(directory, _FILE))


def of_times(times: Times, steps: int, lengths: int) -> Compilation:
    """Chooses by the times of `measure`.

    Args:
      times: The times.
      steps: Steps of the training.
      lengths: Padded lengths, each of which XLA compiles a program for.
    """
    saved = (times.plain - times.compiled) * steps
    return Compilation("auto", saved > times.compilation * lengths, times)


def measure(task: FineTuningTask, batch_size: int, lengths: list[int]) -> Times:
    """Measures forward and backward pass of a batch of random tokens.

    A compiled batch has the third of the lengths. One that is not compiled is padded to
    its longest row, half a length less on average.

    Args:
      task: The task. Its model is built and runs in the strategy's scope and the
        compute type of the caller.
      batch_size: Rows.
      lengths: Padded lengths in tokens, from the shortest.
    """
    strategy, model = tf.distribute.get_strategy(), task.build_model()

    def step(batch: inputs.Batch) -> tf.Tensor:
        features, targets = batch
        with tf.GradientTape() as tape:
            loss = task.build_losses(targets, model(features, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        return tf.linalg.global_norm([loss, *gradients])

    def time_calls(length: int, is_compiled: bool) -> tuple[float, float]:
        """Returns the seconds of the first call, and of the fastest later one."""
        batch = _batch(task, batch_size, length)
        function = tf.function(step, autograph=False, jit_compile=is_compiled)
        durations = []
        for _ in range(1 + _ROUNDS):
            started = time.perf_counter()
            strategy.run(function, args=(batch,)).numpy()  # waits for the device
            durations.append(time.perf_counter() - started)
        first, *others = durations
        return first, min(others)

    _, shorter, longer, *_ = lengths
    traced, plain = time_calls((shorter + longer) // 2, is_compiled=False)
    first, compiled = time_calls(longer, is_compiled=True)
    # Both first calls trace the step.
    compilation = (first - compiled) - (traced - plain)
    return Times(plain, compiled, max(compilation, 0.0))


def _batch(task: FineTuningTask, rows: int, length: int) -> inputs.Batch:
    ids = tf.random.stateless_uniform([rows, length], [0, 0], 0, 2, tf.int32)
    features = {name: tf.zeros_like(ids) for name in ENCODER_INPUTS}
    features |= {ENCODER_INPUTS[0]: ids, INPUT_MASK: tf.ones_like(ids)}
    label = inputs.label_feature(task.task_config.train_data)
    labels = tf.zeros([rows, *label.shape], label.dtype)
    return features, {inputs.LABELS: labels, inputs.WEIGHTS: tf.ones([rows])}
