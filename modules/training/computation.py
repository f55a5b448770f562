"""How a training computes: its type, and whether XLA compiles the training step.

Both are chosen by the hardware, and recorded for a resumed training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tf_keras
from official.core.config_definitions import ExperimentConfig

from contracts import cpu
from contracts.storage import files, uris
from modules.training import strategies

FLOAT32, BFLOAT16, FLOAT16 = "float32", "bfloat16", "float16"
# Compute capability of the first GPUs whose tensor cores multiply bfloat16.
BFLOAT16_CAPABILITY = (8, 0)
# With more, `auto` compiles the steps of a GPU. Not measured on one: an estimate, with
# four compilations of 20 s (17 s on a CPU) and 20 ms that XLA saves in each step.
STEPS_WITHOUT_XLA = 4_000

_DTYPES = (FLOAT32, BFLOAT16, FLOAT16)
_PRECISION_FILE = "precision.json"
_XLA_FILE = "xla.json"

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Precision:
    """The compute type of a training.

    Attributes:
      setting: `trainer.mixed_precision`.
      dtype: The type chosen.
      reason: Why.
    """

    setting: str
    dtype: str
    reason: str


def choose_precision(
    setting: str, strategy: tf.distribute.Strategy, directory: str
) -> Precision:
    """Chooses the compute type, and records it in the directory of the training.

    `auto` is bfloat16 if the hardware multiplies it: a TPU, GPUs that all have
    `BFLOAT16_CAPABILITY`, or a CPU with AMX or AVX-512 for it. Otherwise it is
    float32, also with parameter servers, whose workers may differ. A resumed training
    keeps its type.
    """
    recorded = read_precision(directory)
    chosen = Precision(**recorded) if recorded else _detect_precision(setting, strategy)
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        # The workers' machines may differ; if their choices do, all take float32.
        votes = strategies.sum_over_hosts(
            strategy, [int(dtype == chosen.dtype) for dtype in _DTYPES]
        )
        if max(votes) != sum(votes):
            chosen = Precision(chosen.setting, FLOAT32, "the workers' machines differ")
    logger.info(
        "trainer.mixed_precision %s: %s (%s)",
        chosen.setting,
        chosen.dtype,
        chosen.reason,
    )
    if not recorded and strategies.is_chief(strategy):
        content = dataclasses.asdict(chosen)
        files.write_record(uris.join(directory, _PRECISION_FILE), content)
    return chosen


def read_precision(directory: str) -> dict[str, Any] | None:
    """Returns the `Precision` that is recorded in a training's directory, or None."""
    return files.read_record(uris.join(directory, _PRECISION_FILE))


def compute_in(dtype: str) -> contextlib.AbstractContextManager[None]:
    """Sets the compute type of models built in the context; weights stay float32.

    Args:
      dtype: `float32`, `bfloat16` or `float16`.
    """
    return stored_in(dtype if dtype == FLOAT32 else f"mixed_{dtype}")


@contextlib.contextmanager
def stored_in(dtype: str) -> Iterator[None]:
    """Sets the type of weights and computation of models built in the context.

    Layer normalization stays float32.

    Args:
      dtype: `float32` or `bfloat16`.
    """
    previous = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(dtype)
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(previous)


def copy_weights(source: tf_keras.Model, destination: tf_keras.Model) -> None:
    """Copies weights between models that differ only in their types."""
    for value, variable in zip(source.weights, destination.weights, strict=True):
        variable.assign(tf.cast(value, variable.dtype))


def _detect_precision(setting: str, strategy: tf.distribute.Strategy) -> Precision:
    if setting != "auto":
        return Precision(setting, setting, "from the settings")
    if strategies.is_tpu(strategy):
        return Precision(setting, BFLOAT16, "a TPU multiplies it")
    if strategies.is_asynchronous(strategy):
        return Precision(setting, FLOAT32, "the workers' machines may differ")
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        capabilities = [
            tf.config.experimental.get_device_details(gpu).get("compute_capability")
            for gpu in gpus
        ]
        lowest = min(capability or (0, 0) for capability in capabilities)
        has, needs = (
            "{}.{}".format(*version) for version in (lowest, BFLOAT16_CAPABILITY)
        )
        return Precision(
            setting,
            BFLOAT16 if lowest >= BFLOAT16_CAPABILITY else FLOAT32,
            f"a GPU has compute capability {has}; bfloat16 needs {needs}",
        )
    flag = cpu.find_bfloat16()
    if flag is not None:
        return Precision(setting, BFLOAT16, f"the CPU has {flag}")
    return Precision(setting, FLOAT32, "the CPU has no instructions for bfloat16")


@dataclasses.dataclass(frozen=True)
class Compilation:
    """Whether XLA compiles the training step.

    Attributes:
      setting: `trainer.xla`.
      is_enabled: The choice.
      reason: Why.
    """

    setting: str
    is_enabled: bool
    reason: str


def choose_xla(
    setting: str,
    params: ExperimentConfig,
    strategy: tf.distribute.Strategy,
    directory: str,
    lengths: list[int],
) -> ExperimentConfig:
    """Chooses whether XLA compiles the training step, and records it.

    `auto` is on for a single GPU and more than `STEPS_WITHOUT_XLA` steps, unless a
    batch of long texts has more windows than `windows_in_memory`. It is off on a CPU,
    where it gains nothing, and on several GPUs, whose all-reduce it cannot compile. A
    TPU compiles by itself. A resumed training keeps the choice if it can.

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
    recorded = read_xla(directory)
    if recorded:
        chosen = Compilation(**recorded)
    elif setting != "auto":
        chosen = Compilation(setting, setting == "on", "from the settings")
    elif strategies.is_tpu(strategy):
        chosen = Compilation(setting, False, "a TPU compiles by itself")
    elif not can_compile:
        reason = f"it cannot compile {type(strategy).__name__}"
        chosen = Compilation(setting, False, reason)
    elif not has_gpu:
        chosen = Compilation(setting, False, "a CPU gains nothing")
    else:
        chosen = _choose_xla_for_gpu(params, lengths[-1])
    logger.info(
        "trainer.xla %s: %s (%s)",
        chosen.setting,
        "on" if chosen.is_enabled else "off",
        chosen.reason,
    )
    if not recorded and strategies.is_chief(strategy):
        files.write_record(uris.join(directory, _XLA_FILE), dataclasses.asdict(chosen))
    # A resumed training may be on another machine.
    is_used = can_compile and (has_gpu or setting == "on")
    return enable_xla(params, lengths) if chosen.is_enabled and is_used else params


def enable_xla(params: ExperimentConfig, lengths: list[int]) -> ExperimentConfig:
    """Returns an experiment whose training step XLA compiles."""
    data = params.task.train_data.replace(lengths=lengths)
    return params.replace(task=params.task.replace(xla=True, train_data=data))


def read_xla(directory: str) -> dict[str, Any] | None:
    """Returns the `Compilation` recorded in a training's directory, or None."""
    return files.read_record(uris.join(directory, _XLA_FILE))


def _choose_xla_for_gpu(params: ExperimentConfig, longest: int) -> Compilation:
    """Chooses for a single GPU and batches of at most `longest` tokens."""
    task, steps = params.task, params.trainer.train_steps
    if task.window:
        windows = task.train_data.global_batch_size * longest // task.window
        if windows > task.windows_in_memory:
            reason = (
                f"XLA computes all {windows} windows of a batch at once, and "
                "preprocessing.long_text.windows_in_memory is "
                f"{task.windows_in_memory}"
            )
            return Compilation("auto", False, reason)
    reason = f"{steps} steps; auto compiles more than {STEPS_WITHOUT_XLA}"
    return Compilation("auto", steps > STEPS_WITHOUT_XLA, reason)
