"""The training of a report, from the Trainer's records."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator

from contracts import wording
from contracts.storage import files, uris
from modules.training import model_run
from modules.training.model_run import LEARNING_RATE, TRAIN_DIRECTORY, TRAINING_LOSS
from report.content import Batch, Curve, SeedTraining, Training

_ALL = 0  # the accumulator samples the points of a tensor unless its size is 0


def read_training(directory: str) -> Training:
    """Reads the training of a report.

    Args:
      directory: The Trainer's `ModelRun`.
    """
    content = files.read_record(uris.join(directory, model_run.METRICS_FILE))
    metric, best = content["metric"], content["best"]["seed"]
    decision = content.get("decision")
    has_labels = decision is not None and "labels" in decision
    seeds, rates = [], {}
    for fields in content["seeds"]:
        result = model_run.Result(**fields)
        seed_directory = model_run.seed_directory(directory, result.seed)
        curves = _read_curves(seed_directory)
        rates[result.seed] = curves[LEARNING_RATE]
        seeds.append(
            SeedTraining(
                seed=result.seed,
                losses=curves[TRAINING_LOSS],
                evaluations=_read_evaluations(seed_directory, metric),
                steps=result.steps,
                best_step=result.best_step,
                stopped=result.stopped,
            )
        )
    return Training(
        metric=metric,
        best_seed=best,
        seeds=seeds,
        learning_rates=rates[best],
        facts=_facts(content, model_run.seed_directory(directory, best)),
        calibration=content.get("calibration"),
        **({"label_decisions": decision} if has_labels else {"decision": decision}),
        splits=list(content["splits"]),
    )


def read_batch(directory: str) -> Batch:
    """Reads the first batch of the training.

    Args:
      directory: The Trainer's `ModelRun`.
    """
    return Batch(**files.read_record(uris.join(directory, model_run.BATCH_FILE)))


def _read_evaluations(directory: str, metric: str) -> dict[str, Curve]:
    """Reads each metric of the evaluation split by step."""
    curves: dict[str, Curve] = {}
    for evaluation in model_run.TrainingRecord(directory, metric).evaluations:
        for name, value in evaluation.metrics.items():
            curve = curves.setdefault(name, Curve(x=[], y=[]))
            curve.x.append(evaluation.step)
            curve.y.append(math.nan if value is None else value)
    return curves


def _read_curves(directory: str) -> dict[str, Curve]:
    """Reads the summaries that the training wrote for TensorBoard.

    A training that was killed, or recovered from NaN, repeats steps: the last counts.
    One that was shorter than `trainer.summary_interval` wrote none.
    """
    accumulator = event_accumulator.EventAccumulator(
        uris.join(directory, TRAIN_DIRECTORY),
        size_guidance={event_accumulator.TENSORS: _ALL},
    ).Reload()
    written = accumulator.Tags()["tensors"]
    curves = {}
    for name in (TRAINING_LOSS, LEARNING_RATE):
        values = {
            event.step: float(tf.make_ndarray(event.tensor_proto))
            for event in (accumulator.Tensors(name) if name in written else [])
        }
        steps = sorted(values)
        curves[name] = Curve(x=steps, y=[values[step] for step in steps])
    return curves


def _facts(content: dict[str, Any], best_directory: str) -> dict[str, str]:
    optimizer = files.read_json(uris.join(best_directory, model_run.OPTIMIZER_FILE))
    facts = {
        "started from": content["started_from"],
        "optimizer": optimizer["optimizer"]["type"],
        "learning rate": _describe_rate(optimizer),
    }
    if content["precision"]:
        facts["precision"] = content["precision"]["dtype"]
    if content["xla"]:
        facts["XLA"] = "on" if content["xla"]["is_enabled"] else "off"
    if content["loss_weights"]:
        facts["loss weights"] = str(content["loss_weights"])
    if content["score_scale"]:
        mean, std = content["score_scale"]
        facts["scores in the loss"] = f"(score - {mean:.6g}) / {std:.6g}"
    return facts


def _describe_rate(optimizer: dict[str, Any]) -> str:
    """Returns the schedule of the learning rate with its numbers.

    Args:
      optimizer: The Model Garden's `OptimizationConfig`, as a dictionary.
    """
    kind = optimizer["learning_rate"]["type"]
    schedule = optimizer["learning_rate"].get(kind) or {}
    text = kind
    for name in ("initial_learning_rate", "learning_rate", "values"):
        if (rates := schedule.get(name)) is not None:
            rates = rates if isinstance(rates, list) else [rates]
            text = ", ".join([*(f"{rate:g}" for rate in rates), kind])
    if steps := schedule.get("decay_steps"):
        text += f" over {wording.count(steps, 'step')}"
    warmup = optimizer.get("warmup") or {}
    if steps := (warmup.get(warmup.get("type")) or {}).get("warmup_steps"):
        text += f", after {wording.count(steps, 'step')} of {warmup['type']} warmup"
    return text
