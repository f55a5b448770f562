"""Orbit's loop: from the last checkpoint to the last step.

Orbit calls actions with the outputs of each loop of steps or evaluation. Log records
about progress have an attribute `training`, a dict of numbers to show: `step`, `steps`,
`seed`, `loss` and `examples_per_second` after a loop; `metric`, `best` and `best_step`
after an evaluation; `kept_step` if a signal stopped the training. The texts of a search
(`tuner.py`) are `trial` before each trial and `note` after it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import orbit
import tensorflow as tf
from official.core import actions as official_actions
from official.core import base_trainer, config_definitions

from contracts.metrics import VALIDATION_LOSS
from contracts.signals import STOPPING, Stopper, not_ignored, watch
from contracts.storage import uris
from modules.training import fine_tuning_task, strategies
from modules.training.checkpoints import ResumableCheckpoints
from modules.training.fine_tuning_trainer import CoordinatorEvaluator
from modules.training.model_run import (
    LEARNING_RATE,
    TRAIN_DIRECTORY,
    TRAINING_LOSS,
    VALIDATION_DIRECTORY,
    TrainingRecord,
)

logger = logging.getLogger(__name__)


class TrainingError(Exception):
    """A training that cannot continue."""


def run_loop(
    trainer: base_trainer.Trainer,
    record: TrainingRecord,
    directory: str,
    *,
    check_lock: Callable[[], None] = lambda: None,
    after_evaluation: Callable[[TrainingRecord], None] = lambda _: None,
) -> str | None:
    """Trains and evaluates up to the last step, resuming from a checkpoint.

    Args:
      trainer: The trainer, whose config has steps and intervals.
      record: Receives the evaluations.
      directory: Directory of checkpoints and summaries.
      check_lock: Raises an error if another job took the directory over.
      after_evaluation: Called with the record after each evaluation but the last.

    Returns:
      Why training stopped before its last step, or None.

    Raises:
      TrainingError: `recovery_max_trials` was exceeded; see `TrainerConfig`.
      KeyboardInterrupt: SIGINT was received; a checkpoint is saved.
      SystemExit: SIGTERM or SIGHUP was received; a checkpoint is saved.
    """
    params = trainer.config.trainer
    manager = ResumableCheckpoints(
        trainer.checkpoint,
        directory,
        step_counter=trainer.global_step,
        interval=params.checkpoint_interval,
        max_to_keep=params.max_to_keep,
        init_fn=trainer.initialize,
        is_chief=strategies.is_chief(trainer.strategy),
    )
    # Several workers must save at once, which TensorFlow coordinates.
    is_coordinated = params.preemption_on_demand_checkpoint
    handled = [] if is_coordinated else list(STOPPING)
    with StopOnSignal(
        manager, trainer.global_step, trainer.stop_requested, handled
    ) as stop_on_signal:
        controller = _build_controller(
            trainer,
            manager,
            record,
            directory,
            check_lock=check_lock,
            stop_on_signal=stop_on_signal,
        )
        try:
            return _train_and_evaluate(
                controller, trainer, record, manager, stop_on_signal, after_evaluation
            )
        except RuntimeError as error:
            # The Model Garden's RecoveryCondition raises a plain RuntimeError
            # (official/core/actions.py).
            if "loss value" not in str(error):
                raise
            raise TrainingError(
                f"{error} Training was restored from a checkpoint "
                f"{params.recovery_max_trials} times (trainer.recovery_max_trials); "
                "lower trainer.learning_rate, or look for faulty rows"
            ) from error
        finally:
            manager.wait()


def _build_controller(
    trainer: base_trainer.Trainer,
    manager: ResumableCheckpoints,
    record: TrainingRecord,
    directory: str,
    *,
    check_lock: Callable[[], None],
    stop_on_signal: StopOnSignal,
) -> orbit.Controller:
    params = trainer.config.trainer
    progress = Progress(trainer.global_step, params.train_steps, params.seed)
    # The preemption checkpoint of several workers may be among these actions.
    recovery = official_actions.get_train_actions(
        trainer.config, trainer, manager.directory, manager
    )
    (recover,) = (
        action
        for action in recovery
        if isinstance(action, orbit.actions.ConditionalAction)
    )
    record_evaluation = RecordEvaluation(
        trainer, record, checkpoints=manager, recover=recover
    )
    is_chief = strategies.is_chief(trainer.strategy)
    is_asynchronous = strategies.is_asynchronous(trainer.strategy)
    train_directory = uris.join(directory, TRAIN_DIRECTORY) if is_chief else None
    validation_directory = (
        uris.join(directory, VALIDATION_DIRECTORY) if is_chief else None
    )
    summaries = TrainSummaries(train_directory, trainer.global_step, params)
    # Its `__init__` restores the newest checkpoint, or calls the manager's `init_fn`
    # (orbit/controller.py).
    controller = orbit.Controller(
        strategy=trainer.strategy,
        trainer=trainer,
        evaluator=CoordinatorEvaluator(trainer) if is_asynchronous else trainer,
        global_step=trainer.global_step,
        # A loop ends where a checkpoint is due.
        steps_per_loop=lambda step: min(
            params.steps_per_loop,
            params.checkpoint_interval - int(step) % params.checkpoint_interval,
        ),
        checkpoint_manager=manager,
        enable_async_checkpointing=params.async_checkpoints,
        summary_manager=summaries,
        eval_summary_dir=validation_directory,
        # The lock is checked first: nothing is written to another job's directory.
        train_actions=[lambda _: check_lock(), progress, *recovery, stop_on_signal],
        eval_actions=[
            lambda _: check_lock(),
            record_evaluation,
            stop_on_signal,
            progress.restart,
        ],
    )
    summaries.start()  # at the step that the controller restored
    return controller


def _train_and_evaluate(
    controller: orbit.Controller,
    trainer: base_trainer.Trainer,
    record: TrainingRecord,
    manager: tf.train.CheckpointManager,
    stop_on_signal: StopOnSignal,
    after_evaluation: Callable[[TrainingRecord], None],
) -> str | None:
    """Trains and evaluates from the restored step; returns why it stopped, or None.

    Orbit's `train_and_evaluate` would evaluate neither before the first step nor after
    a training that was killed before its last evaluation, and could not stop early. It
    returns the last evaluation, not the best, and None if no step was left.
    """
    params = trainer.config.trainer
    interval, last = params.validation_interval, params.train_steps
    step = int(trainer.global_step.numpy())
    if step:
        # The trainer's checkpoint holds step, model and optimizer, and no position in
        # the input (`Trainer.__init__` of official/core/base_trainer.py).
        data = dataclasses.replace(trainer.config.task.train_data, start_step=step)
        trainer.train_dataset = trainer.distribute_dataset(
            trainer.task.build_inputs, data
        )
    else:
        manager.save(checkpoint_number=0)  # to restore if the first loss is NaN
    logger.info("training from step %d to %d; the first step is traced", step, last)
    while True:
        # Training and evaluation may both restore an earlier step.
        step = int(trainer.global_step.numpy())
        record.drop_after(step)
        is_due = step >= last or (
            step % interval == 0 if step else params.evaluate_first
        )
        if is_due and not record.has_evaluation(step):
            # Saved first, so that a kill during a long evaluation loses no step.
            controller.save_checkpoint()
            stop_on_signal({})
            controller.evaluate(params.validation_steps)
            continue
        if step >= last:
            return None
        after_evaluation(record)
        reason = record.reason_to_stop(params.patience)
        if reason:
            logger.info("stopped at step %d: %s", step, reason)
            return reason
        # Up to the next evaluation of an uninterrupted training.
        controller.train(
            min((step // interval + 1) * interval, last),
            checkpoint_at_completion=False,
        )


class Progress:
    """Logs the training step, and adds `examples_per_second` to the outputs."""

    def __init__(self, global_step: tf.Variable, train_steps: int, seed: int) -> None:
        self._global_step = global_step
        self._train_steps = train_steps
        self._seed = seed
        self._start = self._last = time.monotonic()

    def restart(self, _: dict[str, Any]) -> None:
        """Restarts the clock, so that an evaluation does not count as training."""
        self._last = time.monotonic()

    def __call__(self, output: dict[str, Any]) -> None:
        """Logs a loop of training steps."""
        now = time.monotonic()
        # Orbit writes what is left in the output as summaries.
        rows = float(output.pop(fine_tuning_task.EXAMPLES))
        output["examples_per_second"] = rows / (now - self._last)
        self._last = now
        quality = {name: output[name] for name in ("accuracy", "mse") if name in output}
        step = int(self._global_step.numpy())
        logger.info(
            "step %d/%d loss %.3f %s rate %.1e %.1f examples/s %d s",
            step,
            self._train_steps,
            output[TRAINING_LOSS],
            " ".join(f"{name} {value:.3f}" for name, value in quality.items()),
            output[LEARNING_RATE],
            output["examples_per_second"],
            now - self._start,
            extra={
                "training": {
                    "step": step,
                    "steps": self._train_steps,
                    "seed": self._seed,
                    "loss": float(output[TRAINING_LOSS]),
                    "examples_per_second": output["examples_per_second"],
                }
            },
        )


class TrainSummaries(orbit.utils.SummaryManager):
    """Writes TensorBoard's training curves, a point for each summary interval.

    Orbit writes one for each loop, and applies its interval only to summaries within
    a training step. Loops end at checkpoints and evaluations too, so a point is due
    after the loop that reaches or passes a multiple of the interval.
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
    """Logs and records an evaluation, or recovers if the outputs are not finite."""

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
        if not math.isfinite(output[VALIDATION_LOSS]):
            logger.warning("step %d evaluation: the outputs are not finite", step)
            # Finite weights can overflow, so their checkpoint looks intact.
            self._checkpoints.discard_current()
            self._recover({TRAINING_LOSS: tf.constant(math.nan)})
            output.clear()  # or its summaries would be written at the restored step
            return
        values = {name: float(value) for name, value in output.items()}
        self._record.add(step, values, self._trainer)
        metric, best = self._record.metric, self._record.best
        logger.info(
            "step %d evaluation loss %.3f %s %.4f",
            step,
            values[VALIDATION_LOSS],
            metric,
            values[metric],
            extra={
                "training": best
                and {
                    "metric": metric,
                    "best": best.metrics[metric],
                    "best_step": best.step,
                }
            },
        )


class StopOnSignal:
    """Saves a checkpoint and stops the training on Ctrl-C, SIGTERM or SIGHUP.

    Kubernetes and Vertex AI send SIGTERM before they stop a machine. The loop ends
    after its current step; call this where saving is safe. If the current step is saved
    already, training stops at once, for example while a function is traced or during an
    evaluation. As a context manager it handles the signals.
    """

    def __init__(
        self,
        checkpoints: ResumableCheckpoints,
        global_step: tf.Variable,
        stop_requested: tf.Variable,
        signals: Sequence[signal.Signals],
    ) -> None:
        self._checkpoints = checkpoints
        self._global_step = global_step
        self._stop_requested = stop_requested
        self._signals = signals
        self._received: signal.Signals | None = None
        self._step: int | None = None  # None before the end of the first loop
        self._stopper = Stopper()
        self._stopped_by: signal.Signals | None = None
        self._handled = contextlib.ExitStack()

    def __enter__(self) -> StopOnSignal:
        """Handles the signals; Python allows only the main thread to."""
        self._handled.callback(self._log_stop)
        self._handled.enter_context(self._stopper.restored())
        if threading.current_thread() is threading.main_thread():
            self._handled.enter_context(watch(self._end_loop))
            for number in not_ignored(self._signals):
                previous = signal.signal(number, self._receive)
                self._handled.callback(signal.signal, number, previous)
        return self

    def __exit__(self, *error: Any) -> None:
        """Restores the previous handlers, and logs what a stopped training kept."""
        self._handled.__exit__(*error)

    def __call__(self, _: dict[str, Any]) -> None:
        """Saves and stops if a signal was received.

        Raises:
          KeyboardInterrupt: It was SIGINT.
          SystemExit: It was SIGTERM or SIGHUP.
        """
        self._step = int(self._global_step.numpy())
        if self._received is not None:
            logger.warning("%s: saving a checkpoint", self._received.name)
            self._checkpoints.wait()
            self._checkpoints.save(checkpoint_number=self._step, check_interval=False)
            self._stop(self._received)

    def _end_loop(self, number: int) -> None:
        if number in self._signals:
            self._stop_requested.assign(True)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        received = signal.Signals(number)
        if received == signal.SIGHUP and (self._received or self._stopped_by):
            return  # of a closed terminal, as the signal before; see `Stopper.stop`
        # While TensorFlow traces a function, the step cannot be read, and is constant.
        if tf.executing_eagerly():
            self._step = int(self._global_step.numpy())
        saved = self._checkpoints.saved_step
        if saved is None or self._step in (None, saved):
            self._stop(received)
        self._received = received

    def _stop(self, received: signal.Signals) -> None:
        # A handler must not log: it may interrupt the write of a line, and then the
        # file raises `RuntimeError: reentrant call`.
        self._stopped_by = received
        self._stopper.stop(received)

    def _log_stop(self) -> None:
        step = self._checkpoints.saved_step
        if self._stopped_by is not None and step is not None:
            logger.warning(
                "%s: checkpoint of step %d saved; start again to resume from it",
                self._stopped_by.name,
                step,
                extra={"training": {"kept_step": step}},
            )
