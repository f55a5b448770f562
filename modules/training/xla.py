"""Whether XLA compiles the training step: chosen, recorded, and set."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import tensorflow as tf

from contracts.storage import files, uris
from modules.training import strategies
from modules.training.experiment import ExperimentConfig

# With more, `auto` compiles the steps of a GPU. Not measured on one: an estimate, with
# four compilations of 20 s (17 s on a CPU) and 20 ms that XLA saves in each step.
STEPS_WITHOUT_XLA = 4_000

_FILE = "xla.json"

logger = logging.getLogger(__name__)


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


def choose(
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
    recorded = read(directory)
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
        chosen = _choose_for_gpu(params, lengths[-1])
    logger.info(
        "trainer.xla %s: %s (%s)",
        chosen.setting,
        "on" if chosen.is_enabled else "off",
        chosen.reason,
    )
    if not recorded and strategies.is_chief(strategy):
        files.write_record(uris.join(directory, _FILE), dataclasses.asdict(chosen))
    # A resumed training may be on another machine.
    is_used = can_compile and (has_gpu or setting == "on")
    return enable(params, lengths) if chosen.is_enabled and is_used else params


def enable(params: ExperimentConfig, lengths: list[int]) -> ExperimentConfig:
    """Returns an experiment whose training step XLA compiles."""
    data = params.task.train_data.replace(lengths=lengths)
    return params.replace(task=params.task.replace(xla=True, train_data=data))


def read(directory: str) -> dict[str, Any] | None:
    """Returns the `Compilation` recorded in a training's directory, or None."""
    return files.read_record(uris.join(directory, _FILE))


def _choose_for_gpu(params: ExperimentConfig, longest: int) -> Compilation:
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
