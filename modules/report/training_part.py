"""The training of a report, from the Trainer's records."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator

from modules import files, uris
from modules.report.content import Batch, Curve, SeedTraining, Training
from modules.training import model_run, record

_LOSS = "training_loss"
_LEARNING_RATE = "learning_rate"
_ALL = 0  # the accumulator samples the points of a tensor unless its size is 0


def read_training(directory: str) -> Training:
    """Reads the training of a report.

    Args:
      directory: The Trainer's `ModelRun`.
    """
    content = files.read_record(uris.join(directory, model_run.METRICS_FILE))
    best = content["best"]["seed"]
    results = [record.Result(**result) for result in content["seeds"]]
    seeds = [_read_seed(directory, content["metric"], result) for result in results]
    curves = _read_curves(record.seed_directory(directory, best))
    return Training(
        metric=content["metric"],
        best_seed=best,
        seeds=seeds,
        learning_rates=curves.get(_LEARNING_RATE, Curve(x=[], y=[])),
        facts=_facts(content, directory, best),
    )


def read_batch(directory: str) -> Batch:
    """Reads the first batch of the training.

    Args:
      directory: The Trainer's `ModelRun`.
    """
    return Batch(**files.read_json(uris.join(directory, model_run.BATCH_FILE)))


def _read_seed(directory: str, metric: str, result: record.Result) -> SeedTraining:
    seed_directory = record.seed_directory(directory, result.seed)
    evaluations = record.TrainingRecord(seed_directory, metric).evaluations
    curves: dict[str, Curve] = {}
    for evaluation in evaluations:
        for name, value in evaluation.metrics.items():
            curve = curves.setdefault(name, Curve(x=[], y=[]))
            curve.x.append(evaluation.step)
            curve.y.append(math.nan if value is None else value)
    losses = _read_curves(seed_directory).get(_LOSS, Curve(x=[], y=[]))
    return SeedTraining(
        seed=result.seed,
        losses=losses,
        evaluations=curves,
        steps=result.steps,
        best_step=result.best_step,
        stopped=result.stopped,
    )


def _read_curves(directory: str) -> dict[str, Curve]:
    """Reads the summaries that the training wrote for TensorBoard.

    A training that was killed, or recovered from NaN, repeats steps: the last counts.
    """
    accumulator = event_accumulator.EventAccumulator(
        uris.join(directory, "train"),
        size_guidance={event_accumulator.TENSORS: _ALL},
    ).Reload()
    curves = {}
    for name in {_LOSS, _LEARNING_RATE} & set(accumulator.Tags()["tensors"]):
        values = {
            event.step: float(tf.make_ndarray(event.tensor_proto))
            for event in accumulator.Tensors(name)
        }
        steps = sorted(values)
        curves[name] = Curve(x=steps, y=[values[step] for step in steps])
    return curves


def _facts(content: dict[str, Any], directory: str, best: int) -> dict[str, str]:
    path = uris.join(record.seed_directory(directory, best), model_run.OPTIMIZER_FILE)
    optimizer = files.read_record(path)
    facts = {
        "started from": content["started_from"],
        "optimizer": optimizer["optimizer"]["type"],
        "learning rate": optimizer["learning_rate"]["type"],
    }
    if content["precision"]:
        facts["precision"] = content["precision"]["dtype"]
    if content["xla"]:
        facts["XLA"] = "on" if content["xla"]["is_enabled"] else "off"
    if content["loss_weights"]:
        facts["loss weights"] = str(content["loss_weights"])
    return facts
