"""Fine-tunes the encoder; what TFX's Trainer runs."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import orbit
import tensorflow as tf
import tensorflow_transform as tft
import tf_keras
from official.core import actions as official_actions
from official.core import base_trainer, config_definitions

from modules import (
    actions,
    checkpoints,
    environment,
    experiment,
    export,
    inputs,
    optimization,
    records,
    strategies,
)
from modules import encoder as encoder_lib
from modules.task import FineTuningTask, collect
from pipeline import fingerprint
from pipeline.config import TrainerConfig
from pipeline.task import TaskConfig

logger = logging.getLogger(__name__)

_RESULT = "result.json"


class TrainingError(Exception):
    """A training that cannot go on."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What one training came to.

    Attributes:
      seed: Its seed.
      steps: Steps it took.
      best_step: The step of the best evaluation.
      metrics: Of that evaluation, on the evaluation split.
      stopped: Why it ended before its last step, or None.
    """

    seed: int
    steps: int
    best_step: int
    metrics: dict[str, float]
    stopped: str | None = None


def run_fn(fn_args: Any) -> None:
    """Trains, picks the best and exports it; called by TFX's Trainer.

    Checkpoints are kept in a directory whose name follows from what is trained, so
    that a training that was killed is resumed by the next execution.

    Args:
      fn_args: `tfx.v1.components.FnArgs`. Its `custom_config` holds `task`, `trainer`,
        `max_seq_length`, `encoder` (a directory), the fingerprints of code and
        encoder, and `checkpoints` (a directory).
    """
    environment.keep_autograph_out_of_keras()
    settings = fn_args.custom_config
    task = TaskConfig.model_validate(settings["task"])
    config = TrainerConfig.model_validate(settings["trainer"])
    if config.strategy in ("auto", "parameter_server"):
        strategies.serve_coordinator()
    strategy = strategies.choose_strategy(config)
    logger.info("strategy %s", type(strategy).__name__)
    splits = split_patterns(fn_args)
    directory = os.path.join(settings["checkpoints"], training_key(settings, splits))
    results = []
    for seed in range(config.seed, config.seed + config.restarts):
        seeded = config.model_copy(update={"seed": seed})
        params = experiment.build_experiment(
            task,
            seeded,
            encoder=settings["encoder"],
            max_seq_length=settings["max_seq_length"],
            splits=splits,
            strategy=strategy,
        )
        results.append(
            train(task, params, strategy, seeded, seed_directory(directory, seed))
        )
    if not strategies.is_chief(strategy):
        return
    best = records.pick_best(results, task.metric)
    model = restore_best(task, params, seed_directory(directory, best.seed))
    export.export_model(
        model,
        tft.TFTransformOutput(fn_args.transform_output),
        task,
        fn_args.serving_model_dir,
        vocab_file=encoder_lib.open_encoder(settings["encoder"]).vocab_file,
        max_seq_length=settings["max_seq_length"],
    )
    records.write_records(
        fn_args.model_run_dir,
        task=task,
        config=config,
        results=results,
        best=best,
        directories={r.seed: seed_directory(directory, r.seed) for r in results},
        predictions={
            split: collect(
                predict(
                    FineTuningTask(params.task, task),
                    model,
                    experiment.examples_config(task, patterns, config),
                )
            )
            for split, patterns in splits.items()
            if split != experiment.TRAIN_SPLIT
        },
        model=model,
    )


def split_patterns(fn_args: Any) -> dict[str, list[str]]:
    """Returns the file patterns of each split that the Trainer was given.

    TFX hands all splits but the training one over as one list; its paths name them.
    """
    splits = {experiment.TRAIN_SPLIT: list(fn_args.train_files)}
    for pattern in fn_args.eval_files:
        folder = os.path.basename(os.path.dirname(pattern))
        splits.setdefault(folder.removeprefix("Split-"), []).append(pattern)
    return splits


def training_key(settings: dict[str, Any], splits: dict[str, list[str]]) -> str:
    """Returns the name that what is trained goes by: data, code, config, encoder.

    Args:
      settings: The Trainer's `custom_config`. Paths do not count, contents do.
      splits: File patterns of each split.
    """
    files = {
        split: fingerprint.of_files(
            path for pattern in patterns for path in tf.io.gfile.glob(pattern)
        )
        for split, patterns in splits.items()
    }
    counted = {k: v for k, v in settings.items() if k not in ("encoder", "checkpoints")}
    return fingerprint.of_json({"files": files, "settings": counted})[:16]


def seed_directory(directory: str, seed: int) -> str:
    """Returns where the training of a seed keeps what it needs to go on."""
    return os.path.join(directory, f"seed-{seed}")


def train(
    task: TaskConfig,
    params: experiment.ExperimentConfig,
    strategy: tf.distribute.Strategy,
    config: TrainerConfig,
    directory: str,
) -> Result:
    """Trains to the end, from where an earlier attempt in the directory got to.

    Args:
      task: The task definition.
      params: The experiment.
      strategy: Where it runs.
      config: The settings, with this training's seed.
      directory: Where checkpoints, summaries and the result are kept.

    Returns:
      The result; at once, where the directory holds that of a finished training.

    Raises:
      TrainingError: The loss was no number too often.
    """
    finished = checkpoints.read_json(os.path.join(directory, _RESULT))
    if finished is not None:
        logger.info("seed %d is trained already: %s", config.seed, finished["metrics"])
        return Result(**finished)
    tf_keras.utils.set_random_seed(config.seed)
    is_chief = strategies.is_chief(strategy)
    if is_chief:
        records.write_params(params, directory)
    with strategies.Precision(params.runtime.mixed_precision_dtype), strategy.scope():
        trainer = build_trainer(FineTuningTask(params.task, task), params)
    evaluations = actions.Evaluations(
        trainer,
        metric=task.metric,
        patience=config.patience,
        directory=directory,
        is_chief=is_chief,
    )
    # The coordinator of parameter servers evaluates by itself, outside their scope.
    asynchronous = strategies.is_asynchronous(strategy)
    with contextlib.nullcontext() if asynchronous else strategy.scope():
        stopped = run_loop(trainer, evaluations, directory, is_chief=is_chief)
    assert evaluations.best is not None  # the last step is always evaluated
    result = Result(
        seed=config.seed,
        steps=int(trainer.global_step.numpy()),
        best_step=evaluations.best["step"],
        metrics=evaluations.best["metrics"],
        stopped=stopped,
    )
    if is_chief:
        checkpoints.write_json(
            os.path.join(directory, _RESULT), dataclasses.asdict(result)
        )
        # They are to go on from, and there is nothing left to do.
        checkpoints.delete_resumable(directory)
    return result


class FineTuningTrainer(base_trainer.Trainer):
    """The Model Garden's trainer, with work for every worker of parameter servers."""

    def create_train_loop_fn(self) -> Callable[[Any, tf.Tensor], None]:
        """Returns the loop over training steps.

        Upstream hands a whole loop to one worker, and the others wait.
        """
        loop = super().create_train_loop_fn()
        if not strategies.is_asynchronous(self.strategy):
            return loop
        workers = strategies.worker_count()

        def share_out(iterator: Any, num_steps: tf.Tensor) -> None:
            steps, rest = divmod(int(num_steps), workers)
            for worker in range(workers):
                share = steps + (worker < rest)
                if share:
                    loop(iterator, tf.constant(share))

        return share_out


class CoordinatorEvaluator(orbit.AbstractEvaluator):
    """Evaluates on the coordinator of workers that train on their own.

    They cannot gather their predictions, which is what the metrics are counted of.
    """

    def __init__(self, trainer: base_trainer.Trainer) -> None:
        """Builds a second model, on this machine.

        Args:
          trainer: Its weights are evaluated.
        """
        self._trainer = trainer
        self._model = trainer.task.build_model()

    def evaluate(self, num_steps: tf.Tensor) -> dict[str, float]:
        """Evaluates the weights as they are now, on the whole evaluation split."""
        weights = [weight.numpy() for weight in self._trainer.model.variables]
        self._model.set_weights(weights)
        task = self._trainer.task
        batches = predict(task, self._model, self._trainer.config.task.validation_data)
        return task.reduce_aggregated_logs(batches)


def predict(
    task: FineTuningTask, model: tf_keras.Model, data: inputs.ExamplesConfig
) -> list[dict[str, np.ndarray]]:
    """Predicts a split on one device.

    Args:
      task: What the model was trained for.
      model: The model.
      data: The split.

    Returns:
      A batch each, as `FineTuningTask.aggregate_logs` gathers them.
    """
    step = tf.function(
        lambda batch: task.validation_step(batch, model), reduce_retracing=True
    )
    batches: list[dict[str, np.ndarray]] = []
    for batch in task.build_inputs(data):
        outputs = {name: (value,) for name, value in step(batch).items()}
        batches = task.aggregate_logs(batches, outputs)
    return batches


def build_trainer(
    task: FineTuningTask, params: config_definitions.ExperimentConfig, **datasets: Any
) -> FineTuningTrainer:
    """Builds the Model Garden's trainer; call it in a strategy's scope.

    Args:
      task: What is trained.
      params: The experiment.
      **datasets: `train_dataset` and `validation_dataset`, where they are not those of
        the experiment.
    """
    optimizer = optimization.build_optimizer(
        params.trainer.optimizer_config,
        transform_gradients=task.transform_gradients,
        mixed_precision=params.runtime.mixed_precision_dtype or "float32",
    )
    model = task.build_model()
    # Keras makes an optimizer's moments at its first step; a checkpoint from before
    # would lack them, and could not undo what went wrong since.
    optimizer._create_all_weights(model.trainable_variables)
    return FineTuningTrainer(
        config=params, task=task, model=model, optimizer=optimizer, **datasets
    )


def run_loop(
    trainer: base_trainer.Trainer,
    evaluations: actions.Evaluations,
    directory: str,
    *,
    is_chief: bool = True,
) -> str | None:
    """Runs Orbit's loop from the last checkpoint to the last step.

    Args:
      trainer: What is trained; its config has steps and intervals.
      evaluations: The action after each evaluation.
      directory: Where checkpoints and summaries go.
      is_chief: Whether this process writes there.

    Returns:
      Why training ended before its last step, or None.

    Raises:
      TrainingError: The loss was no number, or above its bound, too often.
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
    progress = actions.Progress(trainer.global_step, params.train_steps)
    with actions.SaveOnSigterm(
        lambda: manager.save(
            checkpoint_number=trainer.global_step.numpy(), check_interval=False
        )
    ) as save_on_sigterm:
        recovery = official_actions.get_train_actions(
            trainer.config, trainer, directory, manager
        )
        controller = orbit.Controller(
            strategy=trainer.strategy,
            trainer=trainer,
            evaluator=trainer
            if not strategies.is_asynchronous(trainer.strategy)
            else CoordinatorEvaluator(trainer),
            global_step=trainer.global_step,
            steps_per_loop=lambda step: steps_to_next(params, step),
            checkpoint_manager=manager,
            summary_dir=os.path.join(directory, "train") if is_chief else None,
            eval_summary_dir=os.path.join(directory, "validation")
            if is_chief
            else None,
            train_actions=[progress, *recovery, save_on_sigterm],
            eval_actions=[evaluations, save_on_sigterm, lambda _: progress.restart()],
        )
        try:
            return _continue(controller, trainer, evaluations, manager)
        except RuntimeError as error:
            if "loss value" not in str(error):
                raise
            raise TrainingError(
                f"{error} Training went back {params.recovery_max_trials} times "
                "(trainer.recovery_max_trials); lower trainer.learning_rate, or look "
                "for rows that make it so"
            ) from error


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
        if (step % interval == 0 or step == last) and evaluations.is_missing(step):
            controller.evaluate(params.validation_steps)
    else:
        manager.save(checkpoint_number=0)  # what a training that blows up goes back to
    while step < last:
        reason = evaluations.reason_to_stop()
        if reason:
            logger.info("stopped at step %d: %s", step, reason)
            return reason
        # To where an uninterrupted training evaluates next.
        step = min((step // interval + 1) * interval, last)
        controller.train_and_evaluate(
            train_steps=step, eval_steps=params.validation_steps
        )
    return None


def restore_best(
    task: TaskConfig, params: experiment.ExperimentConfig, directory: str
) -> tf_keras.Model:
    """Returns the best model of a training, on one device and in float32.

    Args:
      task: The task definition.
      params: The experiment.
      directory: What `train` was given.
    """
    with strategies.Precision("float32"):
        model = FineTuningTask(params.task, task).build_model()
    checkpoints.BestCheckpoint(directory).restore(model)
    return model
