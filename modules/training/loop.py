"""Orbit's loop around the trainer: from the last checkpoint to the last step."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Callable
from typing import Any

import orbit
import tensorflow as tf
from official.core import actions as official_actions
from official.core import base_trainer, config_definitions

from modules.training import actions, checkpoints, strategies
from modules.training.fine_tuning_trainer import CoordinatorEvaluator

logger = logging.getLogger(__name__)


class TrainingError(Exception):
    """A training that cannot go on."""


def run_loop(
    trainer: base_trainer.Trainer,
    evaluations: actions.Evaluations,
    directory: str,
    *,
    is_chief: bool = True,
    check_lock: Callable[[], None] = lambda: None,
) -> str | None:
    """Runs Orbit's loop from the last checkpoint to the last step.

    Args:
      trainer: What is trained; its config has steps and intervals.
      evaluations: The action after each evaluation.
      directory: Where checkpoints and summaries go.
      is_chief: Whether this process writes there.
      check_lock: Raises an error if another job took the directory over.

    Returns:
      Why training ended before its last step, or None.

    Raises:
      TrainingError: The loss was NaN or above its bound, or outputs were not finite,
        too often.
      SystemExit: SIGTERM was received; a checkpoint is saved.
    """
    params = trainer.config.trainer
    manager = checkpoints.ResumableCheckpoints(
        trainer.checkpoint,
        directory,
        step_counter=trainer.global_step,
        interval=params.checkpoint_interval,
        init_fn=trainer.initialize,
        is_chief=is_chief,
    )
    with actions.SaveOnSigterm(manager, trainer.global_step) as save_on_sigterm:
        controller = _build_controller(
            trainer,
            manager,
            directory if is_chief else None,
            evaluations=evaluations,
            save_on_sigterm=save_on_sigterm,
            check_lock=check_lock,
        )
        try:
            return _continue(controller, trainer, evaluations, manager)
        except RuntimeError as error:
            if "loss value" not in str(error):  # upstream's RecoveryCondition
                raise
            raise TrainingError(
                f"{error} Training went back {params.recovery_max_trials} times "
                "(trainer.recovery_max_trials); lower trainer.learning_rate, or look "
                "for rows that make it so"
            ) from error


def _build_controller(
    trainer: base_trainer.Trainer,
    manager: checkpoints.ResumableCheckpoints,
    summaries: str | None,
    *,
    evaluations: actions.Evaluations,
    save_on_sigterm: actions.SaveOnSigterm,
    check_lock: Callable[[], None],
) -> orbit.Controller:
    params = trainer.config.trainer
    progress = actions.Progress(trainer.global_step, params.train_steps)
    recovery = official_actions.get_train_actions(
        trainer.config, trainer, manager.directory, manager
    )
    is_asynchronous = strategies.is_asynchronous(trainer.strategy)
    return orbit.Controller(
        strategy=trainer.strategy,
        trainer=trainer,
        evaluator=CoordinatorEvaluator(trainer) if is_asynchronous else trainer,
        global_step=trainer.global_step,
        steps_per_loop=lambda step: steps_to_next(params, step),
        checkpoint_manager=manager,
        summary_dir=summaries and os.path.join(summaries, "train"),
        eval_summary_dir=summaries and os.path.join(summaries, "validation"),
        # Nothing is written to a directory that another job took over.
        train_actions=[lambda _: check_lock(), progress, *recovery, save_on_sigterm],
        eval_actions=[
            lambda _: check_lock(),
            _record_or_recover(evaluations, manager, recovery),
            save_on_sigterm,
            lambda _: progress.restart(),
        ],
    )


def _record_or_recover(
    evaluations: actions.Evaluations,
    manager: checkpoints.ResumableCheckpoints,
    train_actions: list[orbit.Action],
) -> orbit.Action:
    """Returns the action that treats outputs that are not finite as a NaN loss."""
    (recover,) = (
        action
        for action in train_actions
        if isinstance(action, orbit.actions.ConditionalAction)
    )

    def act(output: dict[str, Any]) -> None:
        if math.isfinite(output["validation_loss"]):
            evaluations(output)
            return
        logger.warning("evaluation: the model's outputs are not finite")
        # Finite weights can overflow: their checkpoint looks like a good one.
        manager.discard_current()
        recover({"training_loss": tf.constant(math.nan)})
        output.clear()  # Summaries would show it at the restored step.

    return act


def steps_to_next(params: config_definitions.TrainerConfig, step: int) -> int:
    """Returns the steps of a loop: it ends where a checkpoint is due."""
    to_checkpoint = params.checkpoint_interval - step % params.checkpoint_interval
    return int(min(params.steps_per_loop, to_checkpoint))


def _continue(
    controller: orbit.Controller,
    trainer: base_trainer.Trainer,
    evaluations: actions.Evaluations,
    manager: tf.train.CheckpointManager,
) -> str | None:
    params = trainer.config.trainer
    interval, last = params.validation_interval, params.train_steps
    step = int(trainer.global_step.numpy())
    if step:
        data = dataclasses.replace(trainer.config.task.train_data, start_step=step)
        trainer.train_dataset = trainer.distribute_dataset(
            trainer.task.build_inputs, data
        )
    else:
        manager.save(checkpoint_number=0)  # what a training that blows up goes back to
    while True:
        # Training and evaluation may both go back to an earlier step.
        step = int(trainer.global_step.numpy())
        evaluations.drop_later_than(step)
        is_due = step >= last or (step > 0 and step % interval == 0)
        if is_due and evaluations.is_missing(step):
            controller.evaluate(params.validation_steps)
            controller.save_checkpoint()
            continue
        if step >= last:
            return None
        reason = evaluations.reason_to_stop()
        if reason:
            logger.info("stopped at step %d: %s", step, reason)
            return reason
        # To where an uninterrupted training evaluates next.
        controller.train(
            min((step // interval + 1) * interval, last),
            checkpoint_at_completion=False,
        )
