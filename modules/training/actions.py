"""Orbit actions: called with the outputs of each loop of steps or evaluation."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from types import FrameType
from typing import Any

import orbit
import tensorflow as tf
from official.core import base_trainer, config_definitions

from modules.training import fine_tuning_task
from modules.training.checkpoints import ResumableCheckpoints
from modules.training.record import TrainingRecord

logger = logging.getLogger(__name__)

SIGTERM_STATUS = 128 + signal.SIGTERM  # the exit status that a shell reports


class Progress:
    """Logs the training step, and adds `examples_per_second` to the outputs.

    Args:
      global_step: The trainer's.
      train_steps: The last step.
    """

    def __init__(self, global_step: tf.Variable, train_steps: int) -> None:
        self._global_step = global_step
        self._train_steps = train_steps
        self._start = self._last = time.monotonic()

    def restart(self, _: dict[str, Any]) -> None:
        """Restarts the clock, so that an evaluation does not count as training."""
        self._last = time.monotonic()

    def __call__(self, output: dict[str, Any]) -> None:
        """Logs a loop of training steps."""
        now = time.monotonic()
        rows = float(output.pop(fine_tuning_task.EXAMPLES))
        output["examples_per_second"] = rows / (now - self._last)
        self._last = now
        quality = {name: output[name] for name in ("accuracy", "mse") if name in output}
        logger.info(
            "step %d/%d loss %.3f %s rate %.1e %.1f examples/s %d s",
            self._global_step.numpy(),
            self._train_steps,
            output["training_loss"],
            " ".join(f"{name} {value:.3f}" for name, value in quality.items()),
            output["learning_rate"],
            output["examples_per_second"],
            now - self._start,
        )


class TrainSummaries(orbit.utils.SummaryManager):
    """Writes TensorBoard's training curves, a point for each summary interval.

    Orbit writes one for each loop, and applies its interval only to summaries within
    a training step. Loops end at checkpoints and evaluations too, so a point is due
    after the loop that reaches or passes a multiple of the interval.

    Args:
      directory: Directory of the summaries; None writes none.
      global_step: The trainer's.
      params: Has `summary_interval` and `steps_per_loop`.
    """

    def __init__(
        self,
        directory: str | None,
        global_step: tf.Variable,
        params: config_definitions.TrainerConfig,
    ) -> None:
        super().__init__(directory, tf.summary.scalar, global_step=global_step)
        self._step = global_step
        self._interval = params.summary_interval
        self._writes_all = params.summary_interval == params.steps_per_loop
        self._last = 0  # interval of the last point

    def start(self) -> None:
        """Counts intervals from the current step."""
        self._last = int(self._step.numpy()) // self._interval

    def write_summaries(self, summary_dict: dict[str, Any]) -> None:
        """Writes the outputs of a loop, if a point is due."""
        interval = int(self._step.numpy()) // self._interval
        # It is smaller after a recovery, whose steps are repeated.
        if self._writes_all or interval != self._last:
            self._last = interval
            super().write_summaries(summary_dict)


class RecordEvaluation:
    """Logs and records an evaluation, or recovers if the outputs are not finite.

    Args:
      trainer: Its weights are saved.
      record: The training's record.
      checkpoints: The training's checkpoints.
      recover: The Model Garden's action that restores a checkpoint if the training
        loss is NaN.
    """

    def __init__(
        self,
        trainer: base_trainer.Trainer,
        record: TrainingRecord,
        *,
        checkpoints: ResumableCheckpoints,
        recover: orbit.Action,
    ) -> None:
        self._trainer = trainer
        self._record = record
        self._checkpoints = checkpoints
        self._recover = recover

    def __call__(self, output: dict[str, Any]) -> None:
        """Records the metrics of an evaluation.

        Raises:
          RuntimeError: It recovered too often.
        """
        step = int(self._trainer.global_step.numpy())
        if not math.isfinite(output["validation_loss"]):
            logger.warning("step %d evaluation: the outputs are not finite", step)
            # Finite weights can overflow, so their checkpoint looks intact.
            self._checkpoints.discard_current()
            self._recover({"training_loss": tf.constant(math.nan)})
            output.clear()  # or its summaries would be written at the restored step
            return
        values = {name: float(value) for name, value in output.items()}
        logger.info(
            "step %d evaluation loss %.3f %s %.4f",
            step,
            values["validation_loss"],
            self._record.metric,
            values[self._record.metric],
        )
        self._record.add(step, values, self._trainer)


class SaveOnSigterm:
    """Saves a checkpoint and exits after SIGTERM.

    Kubernetes and Vertex AI send SIGTERM before they stop a machine. Call it where
    saving is safe; as a context manager it handles the signal.

    Args:
      checkpoints: Saves the checkpoint.
      global_step: The trainer's.
    """

    def __init__(
        self, checkpoints: ResumableCheckpoints, global_step: tf.Variable
    ) -> None:
        self._checkpoints = checkpoints
        self._global_step = global_step
        self._is_received = False
        self._previous_handler: Any = None

    def __enter__(self) -> SaveOnSigterm:
        """Handles SIGTERM; Python allows only the main thread to."""
        if threading.current_thread() is threading.main_thread():
            self._previous_handler = signal.signal(signal.SIGTERM, self._receive)
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: Any) -> None:
        """Restores the previous handler.

        Raises:
          SystemExit: SIGTERM arrived after the last action of a finished training.
        """
        if self._previous_handler is not None:
            signal.signal(signal.SIGTERM, self._previous_handler)
        if error_type is None:
            self({})

    def __call__(self, _: dict[str, Any]) -> None:
        """Saves and exits if SIGTERM was received.

        Raises:
          SystemExit: It was.
        """
        if self._is_received:
            self._checkpoints.wait()
            self._checkpoints.save(
                checkpoint_number=self._global_step.numpy(), check_interval=False
            )
            logger.warning("SIGTERM: checkpoint saved; start again to resume from it")
            raise SystemExit(SIGTERM_STATUS)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        logger.warning("SIGTERM: saving a checkpoint at the end of this loop")
        self._is_received = True
