"""The compute type of a training: chosen, recorded, and set for the models."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tf_keras

from contracts import cpu
from contracts.storage import files, uris
from modules.training import strategies

FLOAT32, BFLOAT16, FLOAT16 = "float32", "bfloat16", "float16"
# Compute capability of the first GPUs whose tensor cores multiply bfloat16.
BFLOAT16_CAPABILITY = (8, 0)

_DTYPES = (FLOAT32, BFLOAT16, FLOAT16)
_FILE = "precision.json"

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


def choose(setting: str, strategy: tf.distribute.Strategy, directory: str) -> Precision:
    """Chooses the compute type, and records it in the directory of the training.

    `auto` is bfloat16 if the hardware multiplies it: a TPU, GPUs that all have
    `BFLOAT16_CAPABILITY`, or a CPU with AMX or AVX-512 for it. Otherwise it is
    float32, also with parameter servers, whose workers may differ. A resumed training
    keeps its type.
    """
    recorded = read(directory)
    chosen = Precision(**recorded) if recorded else _detect(setting, strategy)
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
        files.write_record(uris.join(directory, _FILE), content)
    return chosen


def read(directory: str) -> dict[str, Any] | None:
    """Returns the `Precision` that is recorded in a training's directory, or None."""
    return files.read_record(uris.join(directory, _FILE))


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


def _detect(setting: str, strategy: tf.distribute.Strategy) -> Precision:
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
