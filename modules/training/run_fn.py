"""Fine-tunes the encoder: the `run_fn` of TFX's Trainer."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras

from contracts import metrics
from contracts.packing import Packing
from contracts.settings.trainer import TrainerConfig
from contracts.storage import files, uris
from contracts.task.decision import DecisionConfig
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from contracts.versions import exported_model
from modules import environment, remote_files
from modules.data import inputs
from modules.encoder.directory import open_encoder, open_without_vocabulary
from modules.evaluation import prediction_files
from modules.evaluation.prediction_files import Predictions
from modules.export import serving_model
from modules.export.serving_model import TracedModel, in_large_batches
from modules.training import (
    checkpoints,
    computation,
    experiment,
    fitted_outputs,
    label_statistics,
    model_run,
    strategies,
    warm_start,
)
from modules.training.fine_tuning_task import FineTuningTask
from modules.training.fine_tuning_trainer import build_trainer, predict
from modules.training.fitted_outputs import FittedOutputs
from modules.training.loop import run_loop
from modules.training.model_run import Result, TrainingRecord, seed_directory

logger = logging.getLogger(__name__)


def run_fn(fn_args: Any) -> None:
    """Trains, selects the best model and exports it; called by TFX's Trainer.

    Checkpoints are kept in a directory named by a hash of the data, code and settings,
    so the next execution resumes a killed training.

    Args:
      fn_args: `tfx.v1.components.FnArgs`. Its `hyperparameters` are the settings of
        `TrainerConfig`, validated by the component that wrote them; its `custom_config`
        holds `task`, `packing`,
        `encoder` (a directory), the fingerprints of code and encoder, `checkpoints` (a
        directory), and `serving_precision`, the type of the exported weights.
    """
    # A custom job of Vertex AI starts TFX's executor, not our entry point.
    environment.set_up()
    settings = fn_args.custom_config
    task = TaskConfig.model_validate(settings["task"])
    config = TrainerConfig.model_construct(**fn_args.hyperparameters)
    if config.strategy in ("auto", "parameter_server"):
        strategies.serve_coordinator()
    strategy = strategies.choose_strategy(config.strategy, config.tpu)
    strategies.check_batches(
        strategy,
        batch_size=config.batch_size,
        evaluation_batch_size=config.evaluation_batch_size,
    )
    logger.info("strategy %s", type(strategy).__name__)
    directory = find_directory(fn_args, config, strategy)
    params = prepare(fn_args, task, config, strategy, directory)
    # Of several workers only the chief writes to the directory.
    lock: contextlib.AbstractContextManager[Callable[[], None]] = (
        checkpoints.hold_directory(directory)
        if strategies.is_chief(strategy)
        else contextlib.nullcontext(lambda: None)
    )
    with lock as check_lock:
        results = [
            train(
                task,
                experiment.with_seed(params, seed),
                strategy,
                seed_directory(directory, seed),
                check_lock=check_lock,
            )
            for seed in range(config.seed, config.seed + config.seeds)
        ]
    _write_outputs(fn_args, task, config, params, strategy, results, directory)


def find_directory(
    fn_args: Any, config: TrainerConfig, strategy: tf.distribute.Strategy
) -> str:
    """Returns the directory of a training, which is named after its checkpoint key."""
    key = checkpoints.compute_key(
        fn_args.custom_config,
        config.fingerprint(),
        split_patterns(fn_args),
        warm_start.find_base_model(fn_args.base_model),
        strategy,
    )
    return uris.join(fn_args.custom_config["checkpoints"], key)


def prepare(
    fn_args: Any,
    task: TaskConfig,
    config: TrainerConfig,
    strategy: tf.distribute.Strategy,
    directory: str,
) -> experiment.ExperimentConfig:
    """Returns the experiment of a training, with the choices of its directory."""
    settings = fn_args.custom_config
    packing = Packing.model_validate(settings["packing"])
    base_model = warm_start.find_base_model(fn_args.base_model)
    logger.info("training starts from %s", warm_start.origin(base_model))
    chosen = computation.choose_precision(config.mixed_precision, strategy, directory)
    params = experiment.build_experiment(
        task,
        config,
        encoder=settings["encoder"],
        packing=packing,
        splits=split_patterns(fn_args),
        strategy=strategy,
        base_model=base_model,
        dtype=chosen.dtype,
    )
    return computation.choose_xla(
        config.xla, params, strategy, directory, inputs.fixed_lengths(packing)
    )


def split_patterns(fn_args: Any) -> dict[str, list[str]]:
    """Returns the file patterns of each split by its name.

    TFX passes all splits but the training one as one list; their folders name them.
    """
    splits = {TRAIN_SPLIT: list(fn_args.train_files)}
    for pattern in fn_args.eval_files:
        folder = os.path.basename(os.path.dirname(pattern))
        splits.setdefault(folder.removeprefix("Split-"), []).append(pattern)
    return splits


def train(
    task: TaskConfig,
    params: experiment.ExperimentConfig,
    strategy: tf.distribute.Strategy,
    directory: str,
    *,
    check_lock: Callable[[], None] = lambda: None,
    after_evaluation: Callable[[TrainingRecord], None] = lambda _: None,
) -> Result:
    """Trains from one seed, resuming from the last checkpoint.

    Args:
      task: The task definition.
      params: The experiment.
      strategy: The distribution strategy.
      directory: Directory of checkpoints, summaries and the record.
      check_lock: Raises an error if another job took the directory over.
      after_evaluation: Called with the record after each evaluation but the last. An
        error that it raises ends the training, which a later call resumes.

    Returns:
      The result, at once if the training has finished before.

    Raises:
      TrainingError: The loss was NaN, or outputs were not finite, too often.
    """
    seed = params.trainer.seed
    is_chief = strategies.is_chief(strategy)
    record = TrainingRecord(directory, task.metric, is_chief=is_chief)
    if record.result is not None:
        logger.info(
            "seed %d has been trained: %s",
            seed,
            ", ".join(f"{k} {value}" for k, value in record.result.metrics.items()),
        )
        return record.result
    tf_keras.utils.set_random_seed(seed)
    if is_chief:
        model_run.write_params(params, directory)
    dtype = params.runtime.mixed_precision_dtype
    with computation.compute_in(dtype), strategy.scope():
        trainer = build_trainer(FineTuningTask(params.task, task), params)
    # The coordinator of parameter servers evaluates by itself, outside their scope.
    is_asynchronous = strategies.is_asynchronous(strategy)
    with contextlib.nullcontext() if is_asynchronous else strategy.scope():
        stopped = run_loop(
            trainer,
            record,
            directory,
            check_lock=check_lock,
            after_evaluation=after_evaluation,
        )
    steps = int(trainer.global_step.numpy())
    result = record.finish(seed=seed, steps=steps, stopped=stopped)
    best = metrics.score(result.metrics[task.metric])
    logger.info(
        "seed %d: best %s %.4f at step %d of %d",
        seed,
        task.metric,
        best,
        result.best_step,
        steps,
    )
    if is_chief and params.trainer.delete_checkpoints:
        checkpoints.delete_resumable(directory)
    return result


def restore_best(
    task: FineTuningTask, directory: str, dtype: str = computation.FLOAT32
) -> tf_keras.Model:
    """Returns the best model of a training.

    In the scope of a strategy of several processes, call it in all of them.

    Args:
      task: The task of the training.
      directory: Directory of the training.
      dtype: Type of weights and computation, `float32` or `bfloat16`.
    """
    with computation.stored_in(computation.FLOAT32):
        model = task.build_model()
    # The chief of several processes writes the record. The others cannot build the
    # model before the chief does.
    TrainingRecord(directory, task.definition.metric).restore_best(model)
    if dtype == computation.FLOAT32:
        return model
    with computation.stored_in(dtype):
        served = task.build_model()
    computation.copy_weights(model, served)
    return served


def predict_splits(
    task: FineTuningTask,
    model: tf_keras.Model | TracedModel,
    splits: dict[str, inputs.ExamplesConfig],
) -> dict[str, Predictions]:
    """Predicts splits on all devices of the current strategy.

    Args:
      task: The task of the model.
      model: The model, built in the same scope.
      splits: Data of each split; its batch size does not matter.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    predictions = {}
    for split, data in splits.items():
        large = in_large_batches(data)
        large.global_batch_size *= replicas
        predictions[split] = task.collect(predict(task, model, large))
    return predictions


def _write_outputs(
    fn_args: Any,
    task: TaskConfig,
    config: TrainerConfig,
    params: experiment.ExperimentConfig,
    strategy: tf.distribute.Strategy,
    results: list[Result],
    directory: str,
) -> None:
    """Predicts in all processes; exports and writes in one."""
    best = max(results, key=lambda result: result.rank(task.metric))
    best_directory = seed_directory(directory, best.seed)
    dtype = fn_args.custom_config["serving_precision"]
    fine_tuning = FineTuningTask(params.task, task)
    splits = {
        split: experiment.examples_config(task, patterns, config)
        for split, patterns in split_patterns(fn_args).items()
        if split != TRAIN_SPLIT
    }
    # TensorFloat-32 of a GPU has three digits. The predictions that are recorded must
    # equal those of the served model.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    predictions: dict[str, Predictions] = {}
    if strategies.is_mirrored(strategy):
        with strategy.scope():
            replicas = restore_best(fine_tuning, best_directory, dtype)
            shared = {
                split: experiment.share_files(data, strategy)
                for split, data in splits.items()
            }
            predictions = predict_splits(fine_tuning, replicas, shared)
    if not strategies.is_chief(strategy):
        return
    model = TracedModel(restore_best(fine_tuning, best_directory, dtype))
    predictions = predictions or predict_splits(fine_tuning, model, splits)
    decision = fn_args.custom_config.get("decision")
    fitted = fitted_outputs.fit(
        task,
        predictions,
        scales=config.temperature_scaling,
        decision=decision and DecisionConfig.model_validate(decision),
    )
    _export(fn_args, fine_tuning, model, fitted)
    _write_records(fn_args, task, params, results, best, fitted, directory)
    model_run.write_graph(model.model, fn_args.model_run_dir)
    remote_files.delete_directory_markers(directory)


def _write_records(
    fn_args: Any,
    task: TaskConfig,
    params: experiment.ExperimentConfig,
    results: list[Result],
    best: Result,
    fitted: FittedOutputs,
    directory: str,
) -> None:
    for split, rows in fitted.predictions.items():
        path = prediction_files.describe_predictions(task, split)["file"]
        path = uris.join(fn_args.model_run_dir, path)
        model_run.write_predictions(path, task, rows)
    for result in results:
        source = seed_directory(directory, result.seed)
        destination = seed_directory(fn_args.model_run_dir, result.seed)
        model_run.copy_records(source, destination)
    content = {
        "metric": task.metric,
        "started_from": warm_start.origin(params.task.base_model),
        "precision": computation.read_precision(directory),
        "xla": computation.read_xla(directory),
        "loss_weights": label_statistics.describe_weights(
            task, params.task.loss_weights
        ),
        "calibration": fitted.calibration and fitted.calibration.model_dump(),
        "decision": fitted.decision and fitted.decision.model_dump(),
        "score_scale": params.task.score_scale if task.label_kind.is_scaled else None,
        "best": dataclasses.asdict(best),
        "seeds": [dataclasses.asdict(result) for result in results],
        "splits": {
            split: rows.compute_metrics(task)
            for split, rows in fitted.predictions.items()
        },
    }
    path = uris.join(fn_args.model_run_dir, model_run.METRICS_FILE)
    files.write_record(path, content)
    model_run.write_batch(
        experiment.with_seed(params, best.seed).task.train_data,
        task,
        open_without_vocabulary(params.task.init_checkpoint).vocab_file,
        fn_args.model_run_dir,
    )


def _export(
    fn_args: Any,
    fine_tuning: FineTuningTask,
    model: TracedModel,
    fitted: FittedOutputs,
) -> None:
    task, head = fine_tuning.definition, fine_tuning.head
    settings = fn_args.custom_config
    encoder = open_encoder(settings["encoder"])
    packing = Packing.model_validate(settings["packing"])
    serving_model.export_model(
        model,
        tft.TFTransformOutput(fn_args.transform_output),
        task,
        head.serve,
        fn_args.serving_model_dir,
        vocab_file=encoder.vocab_file,
        packing=packing,
        temperature=fitted.temperature or 1.0,
        threshold=fitted.threshold,
    )
    serving_model.describe_model(
        fn_args.serving_model_dir,
        task,
        encoder,
        packing=packing,
        precision=settings["serving_precision"],
        fitted={**head.description, **fitted.description},
    )
    exported_model.write_digest(fn_args.serving_model_dir, fn_args.model_run_dir)
