"""The compute type of a training: chosen, recorded, and set for the models."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tf_keras
from official.modeling import performance

from contracts.storage import files, uris
from modules.training import strategies

FLOAT32, BFLOAT16, FLOAT16 = "float32", "bfloat16", "float16"
# `auto` on a CPU chooses bfloat16 if it multiplies this many times as fast as float32.
LEAST_GAIN = 2.0

_DTYPES = {FLOAT32: tf.float32, BFLOAT16: tf.bfloat16, FLOAT16: tf.float16}
_FILE = "precision.json"
_SIZE = 1024  # rows and columns of the matrices that a CPU multiplies
_ROUNDS = 5
# Compute capabilities of the first GPUs whose tensor cores multiply these types.
_BFLOAT16_CAPABILITY, _FLOAT16_CAPABILITY = (8, 0), (7, 0)

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Precision:
    """The compute type of a training.

    Attributes:
      setting: `trainer.mixed_precision`.
      dtype: The type chosen.
      gflops: Rate of a matrix product by type, in 10^9 FLOP/s; None if it was not
        measured.
    """

    setting: str
    dtype: str
    gflops: dict[str, float] | None = None


def choose(
    setting: str,
    strategy: tf.distribute.Strategy,
    directory: str,
    *,
    has_averages: bool = False,
) -> Precision:
    """Chooses the compute type, and records it in the directory of the training.

    `auto` is bfloat16 on a TPU. On a GPU it is bfloat16 or float16, if the tensor cores
    support it. On a CPU it is bfloat16, if a matrix product is at least `LEAST_GAIN`
    times as fast as in float32. Otherwise it is float32, also with parameter servers,
    whose workers may differ. A resumed training keeps its type.

    Args:
      setting: Setting `trainer.mixed_precision`.
      strategy: The distribution strategy.
      directory: Directory of the training's checkpoints.
      has_averages: Whether the optimizer averages the weights, which `auto` cannot
        combine with the scaled loss of float16.
    """
    recorded = read(directory)
    chosen = (
        Precision(**recorded)
        if recorded
        else _detect(setting, strategy, has_averages=has_averages)
    )
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        # The workers' CPUs may differ; if their choices do, all take float32.
        votes = strategies.sum_over_hosts(
            strategy, [int(dtype == chosen.dtype) for dtype in _DTYPES]
        )
        if max(votes) != sum(votes):
            chosen = dataclasses.replace(chosen, dtype=FLOAT32)
    logger.info(
        "trainer.mixed_precision %s: %s; matrix product in GFLOP/s: %s",
        chosen.setting,
        chosen.dtype,
        ", ".join(f"{dtype} {rate:g}" for dtype, rate in chosen.gflops.items())
        if chosen.gflops
        else "not measured",
    )
    if not recorded and strategies.is_chief(strategy):
        content = dataclasses.asdict(chosen)
        files.write_record(uris.join(directory, _FILE), content)
    return chosen


def read(directory: str) -> dict[str, Any] | None:
    """Returns the `Precision` that is recorded in a training's directory, or None."""
    return files.read_record(uris.join(directory, _FILE))


@contextlib.contextmanager
def compute_in(dtype: str) -> Iterator[None]:
    """Sets the compute type of models built in the context; weights stay float32.

    Args:
      dtype: `float32`, `bfloat16` or `float16`.
    """
    previous = tf_keras.mixed_precision.global_policy()
    performance.set_mixed_precision_policy(_DTYPES[dtype])
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(previous)


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


def measure_cpu() -> dict[str, float]:
    """Returns the CPU's rate of a matrix product by type, in 10^9 FLOP/s.

    The fastest of a few rounds in turn counts: other processes only slow it down.
    """
    seconds = {FLOAT32: float("inf"), BFLOAT16: float("inf")}
    with tf.device("CPU:0"):
        matrix = tf.ones([_SIZE, _SIZE])
        matrices = {dtype: tf.cast(matrix, _DTYPES[dtype]) for dtype in seconds}
        for _ in range(_ROUNDS):
            for dtype, values in matrices.items():
                started = time.perf_counter()
                tf.matmul(values, values)
                elapsed = time.perf_counter() - started
                seconds[dtype] = min(seconds[dtype], elapsed)
    flops = 2 * _SIZE**3
    return {dtype: round(flops / best / 1e9, 1) for dtype, best in seconds.items()}


def of_rates(gflops: dict[str, float]) -> Precision:
    """Chooses the type of a CPU by the rates of `measure_cpu`."""
    is_faster = gflops[BFLOAT16] >= LEAST_GAIN * gflops[FLOAT32]
    return Precision("auto", BFLOAT16 if is_faster else FLOAT32, gflops)


def of_capability(capability: tuple[int, int]) -> str:
    """Chooses the type of a GPU by its compute capability, (major, minor)."""
    if capability >= _BFLOAT16_CAPABILITY:
        return BFLOAT16
    return FLOAT16 if capability >= _FLOAT16_CAPABILITY else FLOAT32


def _detect(
    setting: str, strategy: tf.distribute.Strategy, *, has_averages: bool
) -> Precision:
    if setting != "auto":
        return Precision(setting, setting)
    if strategies.is_tpu(strategy):
        return Precision(setting, BFLOAT16)
    if strategies.is_asynchronous(strategy):
        return Precision(setting, FLOAT32)
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        capabilities = [
            tf.config.experimental.get_device_details(gpu).get("compute_capability")
            for gpu in gpus
        ]
        dtype = of_capability(min(value or (0, 0) for value in capabilities))
        return Precision(
            setting, FLOAT32 if dtype == FLOAT16 and has_averages else dtype
        )
    return of_rates(measure_cpu())
