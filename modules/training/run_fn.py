"""Fine-tunes the encoder; what TFX's Trainer runs."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

from modules import encoder as encoder_lib
from modules import environment, fingerprint
from modules.config.task import TaskConfig
from modules.config.trainer import TrainerConfig
from modules.evaluation import metrics
from modules.export import description, serving_model
from modules.export.traced_model import TracedModel, in_large_batches
from modules.training import (
    actions,
    checkpoints,
    directory_lock,
    experiment,
    model_run,
    strategies,
    warm_start,
)
from modules.training.fine_tuning_task import FineTuningTask, collect
from modules.training.fine_tuning_trainer import build_trainer, predict
from modules.training.loop import run_loop
from modules.training.result import Result

logger = logging.getLogger(__name__)

_RESULT = "result.json"
# Of the Trainer's `custom_config`, what the outcome of a training depends on.
_KEY_SETTINGS = ("task", "max_seq_length", "encoder_fingerprint", "code_fingerprint")


def run_fn(fn_args: Any) -> None:
    """Trains, picks the best and exports it; called by TFX's Trainer.

    Checkpoints are kept in a directory whose name follows from what is trained, so
    that a training that was killed is resumed by the next execution.

    Args:
      fn_args: `tfx.v1.components.FnArgs`. Its `hyperparameters` are the settings of
        `TrainerConfig`; its `custom_config` holds `task`, `max_seq_length`, `encoder`
        (a directory), the fingerprints of code and encoder, and `checkpoints` (a
        directory).
    """
    environment.set_up()
    settings = fn_args.custom_config
    task = TaskConfig.model_validate(settings["task"])
    config = TrainerConfig.model_validate(fn_args.hyperparameters)
    if config.strategy in ("auto", "parameter_server"):
        strategies.serve_coordinator()
    strategy = strategies.choose_strategy(config)
    logger.info("strategy %s", type(strategy).__name__)
    splits = split_patterns(fn_args)
    base_model = warm_start.find_base(fn_args.base_model)
    logger.info("training starts from %s", warm_start.origin(base_model))
    directory = os.path.join(
        settings["checkpoints"], training_key(settings, config, splits, base_model)
    )
    params = experiment.build_experiment(
        task,
        config,
        encoder=settings["encoder"],
        max_seq_length=settings["max_seq_length"],
        splits=splits,
        strategy=strategy,
        base_model=base_model,
    )
    seeds = range(config.seed, config.seed + config.restarts)
    results = _train_seeds(seeds, task, params, strategy, directory)
    if strategies.is_chief(strategy):
        _write_outputs(fn_args, task, config, params, results, directory)


def _train_seeds(
    seeds: Iterable[int],
    task: TaskConfig,
    params: experiment.ExperimentConfig,
    strategy: tf.distribute.Strategy,
    directory: str,
) -> list[Result]:
    # Of several workers, the chief alone writes to the directory.
    lock: contextlib.AbstractContextManager[Callable[[], None]] = (
        directory_lock.hold(directory)
        if strategies.is_chief(strategy)
        else contextlib.nullcontext(lambda: None)
    )
    with lock as check_lock:
        return [
            train(
                task,
                experiment.with_seed(params, seed),
                strategy,
                seed_directory(directory, seed),
                check_lock=check_lock,
            )
            for seed in seeds
        ]


def _write_outputs(
    fn_args: Any,
    task: TaskConfig,
    config: TrainerConfig,
    params: experiment.ExperimentConfig,
    results: list[Result],
    directory: str,
) -> None:
    best = model_run.pick_best(results, task.metric)
    own_task = FineTuningTask(params.task, task)
    # A GPU's TensorFloat-32 has three digits: what is recorded is what is served.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    model = TracedModel(restore_best(own_task, seed_directory(directory, best.seed)))
    _export(fn_args, task, model)
    splits = {
        split: experiment.examples_config(task, patterns, config)
        for split, patterns in split_patterns(fn_args).items()
        if split != experiment.TRAIN_SPLIT
    }
    predictions = {
        split: collect(predict(own_task, model, in_large_batches(data)))
        for split, data in splits.items()
    }
    model_run.write_records(
        fn_args.model_run_dir,
        task=task,
        results=results,
        best=best,
        started_from=warm_start.origin(params.task.base_model),
        directories=[seed_directory(directory, r.seed) for r in results],
        predictions=predictions,
        model=model.model,
    )


def _export(fn_args: Any, task: TaskConfig, model: TracedModel) -> None:
    settings = fn_args.custom_config
    encoder = encoder_lib.open_encoder(settings["encoder"])
    serving_model.export_model(
        model,
        tft.TFTransformOutput(fn_args.transform_output),
        task,
        fn_args.serving_model_dir,
        vocab_file=encoder.vocab_file,
        max_seq_length=settings["max_seq_length"],
    )
    description.write_description(
        fn_args.serving_model_dir,
        {
            **description.describe_task(task),
            **encoder_lib.describe_architecture(encoder),
        },
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


def training_key(
    settings: dict[str, Any],
    config: TrainerConfig,
    splits: dict[str, list[str]],
    base_model: str = "",
) -> str:
    """Returns the checkpoint key: hash of data, code, libraries, config and start.

    The libraries are those of this process, which trains; `custom_config` may come
    from another machine.

    Args:
      settings: The Trainer's `custom_config`. Neither paths nor machines count.
      config: How it is trained.
      splits: File patterns of each split.
      base_model: The exported model that it starts from; empty for the encoder.
    """
    files = {
        split: fingerprint.of_files(
            path for pattern in patterns for path in tf.io.gfile.glob(pattern)
        )
        for split, patterns in splits.items()
    }
    counted = {key: settings[key] for key in _KEY_SETTINGS}
    if base_model:
        counted["base_model"] = warm_start.fingerprint_of(base_model)
    return fingerprint.of_json(
        {
            "files": files,
            "settings": counted,
            "libraries": fingerprint.library_versions(fingerprint.TRAINER_LIBRARIES),
            "trainer": config.model_dump(),
        }
    )[:16]


def seed_directory(directory: str, seed: int) -> str:
    """Returns where the training of a seed keeps what it needs to go on."""
    return os.path.join(directory, f"seed-{seed}")


def train(
    task: TaskConfig,
    params: experiment.ExperimentConfig,
    strategy: tf.distribute.Strategy,
    directory: str,
    *,
    check_lock: Callable[[], None] = lambda: None,
) -> Result:
    """Trains to the end, from where an earlier attempt in the directory got to.

    Args:
      task: The task definition.
      params: The experiment.
      strategy: Where it runs.
      directory: Where checkpoints, summaries and the result are kept.
      check_lock: Raises an error if another job took the directory over.

    Returns:
      The result; at once, where the directory holds that of a finished training.

    Raises:
      TrainingError: The loss was NaN, or outputs were not finite, too often.
    """
    seed = params.trainer.seed
    finished = checkpoints.read_json(os.path.join(directory, _RESULT))
    if finished is not None:
        logger.info("seed %d is trained already: %s", seed, finished["metrics"])
        return Result(**finished)
    tf_keras.utils.set_random_seed(seed)
    is_chief = strategies.is_chief(strategy)
    if is_chief:
        model_run.write_params(params, directory)
    with strategies.precision(params.runtime.mixed_precision_dtype), strategy.scope():
        trainer = build_trainer(FineTuningTask(params.task, task), params)
    evaluations = actions.Evaluations(
        trainer,
        metric=task.metric,
        patience=params.trainer.patience,
        directory=directory,
        is_chief=is_chief,
    )
    # The coordinator of parameter servers evaluates by itself, outside their scope.
    asynchronous = strategies.is_asynchronous(strategy)
    with contextlib.nullcontext() if asynchronous else strategy.scope():
        stopped = run_loop(
            trainer,
            evaluations,
            directory,
            is_chief=is_chief,
            check_lock=check_lock,
        )
    assert evaluations.best is not None  # the last step is always evaluated
    result = Result(
        seed=seed,
        steps=int(trainer.global_step.numpy()),
        best_step=evaluations.best["step"],
        metrics=evaluations.best["metrics"],
        stopped=stopped,
    )
    logger.info(
        "seed %d: best %s %.4f at step %d of %d",
        seed,
        task.metric,
        metrics.score(result.metrics[task.metric]),
        result.best_step,
        result.steps,
    )
    if is_chief:
        path = os.path.join(directory, _RESULT)
        checkpoints.write_json(path, dataclasses.asdict(result))
        # They are to go on from, and there is nothing left to do.
        checkpoints.delete_resumable(directory)
    return result


def restore_best(task: FineTuningTask, directory: str) -> tf_keras.Model:
    """Returns the best model of a training, on one device and in float32.

    Args:
      task: What it was trained for.
      directory: What `train` was given.
    """
    with strategies.precision("float32"):
        model = task.build_model()
    checkpoints.BestCheckpoint(directory).restore(model)
    return model
