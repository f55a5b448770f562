"""What happens after every loop of training steps, and after every evaluation.

Each is an Orbit action: a callable that is given the output as a dictionary, to which
it may add what summaries are to show.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

import orbit
import tensorflow as tf
from official.core import base_trainer
from official.modeling import optimization

from modules.evaluation import metrics
from modules.training import checkpoints, fine_tuning_task

logger = logging.getLogger(__name__)

_HISTORY = "evaluations.json"
_BEST_METRIC = "best_metric.json"

SIGTERM_STATUS = 128 + signal.SIGTERM  # what a shell reports of it


class Progress:
    """Logs where training stands, and adds `examples_per_second`."""

    def __init__(self, global_step: tf.Variable, train_steps: int) -> None:
        """Starts the clock.

        Args:
          global_step: The trainer's.
          train_steps: The step at which training ends.
        """
        self._global_step = global_step
        self._train_steps = train_steps
        self._start = self._last = time.monotonic()

    def restart(self) -> None:
        """Starts the clock of the next loop anew, after an evaluation."""
        self._last = time.monotonic()

    def __call__(self, output: dict[str, Any]) -> None:
        """Logs the step with its losses and the seconds since the start."""
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


class Evaluations:
    """Keeps the best model by the deciding metric, and tells when none gets better.

    What was evaluated is read back from disk, so that a resumed training judges as an
    uninterrupted one would.
    """

    def __init__(
        self,
        trainer: base_trainer.Trainer,
        *,
        metric: str,
        patience: int | None,
        directory: str,
        is_chief: bool = True,
    ) -> None:
        """Reads what was recorded before.

        Args:
          trainer: Its model is saved.
          metric: The deciding metric; more is better.
          patience: Evaluations without a better one after which training stops.
          directory: Where the best weights and the history are kept.
          is_chief: Whether this process writes.
        """
        self._trainer = trainer
        self._metric = metric
        self._patience = patience
        self._history_file = os.path.join(directory, _HISTORY)
        self._is_chief = is_chief
        self._checkpoint = checkpoints.BestCheckpoint(directory)
        self.best: dict[str, Any] | None = self._checkpoint.record()
        self._history: list[dict[str, float]] = (
            checkpoints.read_json(self._history_file) or []
        )
        self._is_new_best = orbit.actions.NewBestMetric(
            lambda output: metrics.score(float(output[metric])),
            filename=os.path.join(directory, _BEST_METRIC),
            write_metric=is_chief,
        )

    def __call__(self, output: dict[str, Any]) -> None:
        """Logs and records an evaluation, and saves the weights if it is the best."""
        step = int(self._trainer.global_step.numpy())
        values = {name: float(value) for name, value in output.items()}
        logger.info(
            "step %d evaluation loss %.3f %s %.4f",
            step,
            values["validation_loss"],
            self._metric,
            values[self._metric],
        )
        self._history.append({"step": step, **values})
        if self.best is None or self._is_new_best.test(output):
            self._save({"step": step, "metrics": values})
            self._is_new_best.commit(output)
        if self._is_chief:
            checkpoints.write_json(self._history_file, self._history)

    def drop_later_than(self, step: int) -> None:
        """Drops evaluations of later steps: a training that went back repeats them."""
        self._history = [entry for entry in self._history if entry["step"] <= step]

    def is_missing(self, step: int) -> bool:
        """Tells whether there was no evaluation at a step."""
        return all(entry["step"] != step for entry in self._history)

    def reason_to_stop(self) -> str | None:
        """Returns why training is not worth going on with, or None."""
        scores = [metrics.score(entry[self._metric]) for entry in self._history]
        if self._patience is None or not scores:
            return None
        since = len(scores) - 1 - scores.index(max(scores))
        if since < self._patience:
            return None
        return f"no better {self._metric} in {since} evaluations (trainer.patience)"

    def _save(self, record: dict[str, Any]) -> None:
        # The averages are what was evaluated; evaluation has swapped them back.
        optimizer = self._trainer.optimizer
        is_averaged = isinstance(optimizer, optimization.ExponentialMovingAverage)
        if is_averaged:
            optimizer.swap_weights()
        if self._is_chief:
            self._checkpoint.save(self._trainer.model, record)
        if is_averaged:
            optimizer.swap_weights()
        self.best = record


class SaveOnSigterm:
    """Saves a checkpoint and exits where the process was told to end.

    Kubernetes and Vertex AI send SIGTERM before they take a machine away.
    """

    def __init__(
        self, manager: tf.train.CheckpointManager, global_step: tf.Variable
    ) -> None:
        """Keeps what to save.

        Args:
          manager: Writes the checkpoint.
          global_step: The trainer's.
        """
        self._manager = manager
        self._global_step = global_step
        self._is_told = False
        self._before: Any = None

    def __enter__(self) -> SaveOnSigterm:
        """Starts to listen. Python allows that to the main thread alone."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._tell)
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: Any) -> None:
        """Restores the previous handler.

        Raises:
          SystemExit: SIGTERM arrived after the last action of a finished training.
        """
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        if error_type is None:
            self({})

    def __call__(self, _: dict[str, Any]) -> None:
        """Saves and exits, if the process was told to.

        Raises:
          SystemExit: It was.
        """
        if self._is_told:
            self._manager.save(
                checkpoint_number=self._global_step.numpy(), check_interval=False
            )
            logger.warning("SIGTERM: saved, and gone; start again to go on from here")
            raise SystemExit(SIGTERM_STATUS)

    def _tell(self, number: int, frame: FrameType | None) -> None:
        logger.warning("SIGTERM: saving at the end of this loop")
        self._is_told = True
