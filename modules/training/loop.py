"""Orbit's loop: from the last checkpoint to the last step."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

import orbit
import tensorflow as tf
from official.core import actions as official_actions
from official.core import base_trainer

from contracts import signals
from contracts.storage import uris
from modules.training import actions, checkpoints, strategies
from modules.training.fine_tuning_trainer import CoordinatorEvaluator
from modules.training.model_run import (
    TRAIN_DIRECTORY,
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
    manager = checkpoints.ResumableCheckpoints(
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
    handled = [] if is_coordinated else list(signals.STOPPING)
    with actions.StopOnSignal(
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
    manager: checkpoints.ResumableCheckpoints,
    record: TrainingRecord,
    directory: str,
    *,
    check_lock: Callable[[], None],
    stop_on_signal: actions.StopOnSignal,
) -> orbit.Controller:
    params = trainer.config.trainer
    progress = actions.Progress(trainer.global_step, params.train_steps, params.seed)
    # The preemption checkpoint of several workers may be among these actions.
    recovery = official_actions.get_train_actions(
        trainer.config, trainer, manager.directory, manager
    )
    (recover,) = (
        action
        for action in recovery
        if isinstance(action, orbit.actions.ConditionalAction)
    )
    record_evaluation = actions.RecordEvaluation(
        trainer, record, checkpoints=manager, recover=recover
    )
    is_chief = strategies.is_chief(trainer.strategy)
    is_asynchronous = strategies.is_asynchronous(trainer.strategy)
    train_directory = uris.join(directory, TRAIN_DIRECTORY) if is_chief else None
    validation_directory = (
        uris.join(directory, VALIDATION_DIRECTORY) if is_chief else None
    )
    summaries = actions.TrainSummaries(train_directory, trainer.global_step, params)
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
    stop_on_signal: actions.StopOnSignal,
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
