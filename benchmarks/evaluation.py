"""Compares the Evaluator's metrics with TFMA's own, without a model's predictions.

    python -m benchmarks.evaluation --rows 4000 --rows 500000

The predictions are random, of two classes, in batches as TFX's Evaluator extracts them,
with the slices of MRPC. Each round computes TFMA's metrics row by row (of at most 4,000
rows), then ours by batch. Prints a table in Markdown.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import click
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

from benchmarks import rounds
from contracts import metrics
from contracts.task.definition import PAIR_LENGTH, WORD_OVERLAP, TaskConfig
from modules.evaluation import eval_config, tfma_metrics

TASKS = {
    "two classes": TaskConfig(),
    "three classes": TaskConfig(classes=["no", "maybe", "yes"]),
    "scores": TaskConfig(label_range=[0, 5]),
}
MODELS = (tfma.CANDIDATE_KEY, tfma.BASELINE_KEY)
# TFMA's metrics with the same values as ours, except AUC: TFMA computes it in buckets.
_TFMA_METRICS = {
    "ExampleCount": tfma_metrics.EXAMPLE_COUNT,
    "MultiClassConfusionMatrixPlot": tfma_metrics.CONFUSION_MATRIX,
}
_TFMA_BINARY = {
    "BinaryAccuracy": "accuracy",
    "F1Score": "f1",
    "Precision": "precision",
    "Recall": "recall",
    "AUC": "auc",
    "BinaryCrossEntropy": "loss",
    "Calibration": "calibration",
}
_TFMA_CLASSES = {
    "SparseCategoricalAccuracy": "accuracy",
    "SparseCategoricalCrossentropy": "loss",
}
_TFMA_SCORES = {"MeanSquaredError": "mse", "MeanAbsoluteError": "mae"}

_BATCH = 1000  # the maximum rows of a batch in TFX
_TFMA_ROWS = 4000
_KINDS = ("metrics", "plots")


def configure(
    task: TaskConfig, models: Sequence[str] = MODELS
) -> config_pb2.EvalConfig:
    """Returns the Evaluator's configuration for some models, the last a baseline."""
    return tfma.utils.update_eval_config_with_defaults(
        eval_config.build_eval_config(task), has_baseline=len(models) > 1
    )


def with_tfma_metrics(
    task: TaskConfig, models: Sequence[str] = MODELS
) -> config_pb2.EvalConfig:
    """Returns the configuration of `configure`, with TFMA's own metrics."""
    config = configure(task, models)
    plain = dict(_TFMA_METRICS)
    kind = task.label_kind.metric_kind
    if kind == "regression":
        del plain["MultiClassConfusionMatrixPlot"]
        plain |= _TFMA_SCORES
    elif kind != "binary":
        plain |= _TFMA_CLASSES
    specs = [config_pb2.MetricsSpec(metrics=_configs(plain))]
    if kind == "binary":
        of_one_class = config_pb2.MetricsSpec(metrics=_configs(_TFMA_BINARY))
        of_one_class.binarize.class_ids.values.append(metrics.POSITIVE_CLASS)
        specs.append(of_one_class)
    for spec in specs:
        spec.model_names.extend(model.name for model in config.model_specs)
    del config.metrics_specs[:]
    config.metrics_specs.extend(specs)
    return config


def _configs(names: Mapping[str, str]) -> list[config_pb2.MetricConfig]:
    return [
        config_pb2.MetricConfig(class_name=class_name, config=f'"name": "{name}"')
        for class_name, name in names.items()
    ]


def extract(
    task: TaskConfig,
    sizes: Iterable[int],
    models: Sequence[str] = MODELS,
    first: Sequence[Sequence[float]] = (),
) -> list[dict[str, Any]]:
    """Returns random extracts, a batch of each size.

    Args:
      task: The task.
      sizes: Rows of each batch.
      models: Names of the models.
      first: Outputs of the first rows.
    """
    random = np.random.default_rng(0)
    return [_batch(task, random, size, models, first) for size in sizes]


def evaluate(
    extracts: list[dict[str, Any]], config: config_pb2.EvalConfig, *, by_batch: bool
) -> dict[str, Any]:
    """Returns TFMA's metrics and plots by slice.

    Args:
      extracts: The extracts of each batch.
      config: The Evaluator's configuration.
      by_batch: Whether whole batches are sliced; otherwise rows, as TFMA does.
    """
    if by_batch:
        slices = [beam.ParDo(tfma_metrics.SliceBatch(config))]
    else:
        slices = [
            tfma.extractors.UnbatchExtractor().ptransform,
            tfma.extractors.SliceKeyExtractor(eval_config=config).ptransform,
        ]
    evaluator = tfma.evaluators.MetricsPlotsAndValidationsEvaluator(config)
    with tempfile.TemporaryDirectory() as directory:
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            rows = pipeline | beam.Create(extracts, reshuffle=False)
            for index, transform in enumerate(slices):
                rows |= str(index) >> transform
            outputs = rows | evaluator.ptransform
            for kind in _KINDS:
                _ = (
                    outputs[kind]
                    | f"List {kind}" >> beam.combiners.ToList()
                    | f"Write {kind}" >> beam.Map(_write, f"{directory}/{kind}")
                )
        return {
            kind: pickle.loads(Path(directory, kind).read_bytes()) for kind in _KINDS
        }


def _write(items: list[tuple[Any, Any]], path: str) -> None:
    Path(path).write_bytes(pickle.dumps(dict(items)))


def _batch(
    task: TaskConfig,
    random: np.random.Generator,
    size: int,
    models: Sequence[str],
    first: Sequence[Sequence[float]],
) -> dict[str, Any]:
    lengths = random.choice([b"0-19", b"20-39", b"60+"], size, p=[0.6, 0.39, 0.01])
    labels: np.ndarray
    if not task.label_kind.names:
        labels = random.uniform(0, 5, size).astype(np.float32)
    else:
        labels = random.integers(0, task.outputs, size)
        labels[lengths == b"20-39"] = 1  # a slice of one class
    outputs = {name: _outputs(task, random, size, first) for name in models}
    features = {
        PAIR_LENGTH: lengths,
        WORD_OVERLAP: np.full(size, b"25-49"),
    }
    output = task.label_kind.output
    predictions = {name: {output: values} for name, values in outputs.items()}
    by_model: dict[str, Any] = {
        tfma.constants.LABELS_KEY: dict.fromkeys(models, labels[:, np.newaxis]),
        tfma.constants.PREDICTIONS_KEY: predictions,
        tfma.constants.TRANSFORMED_FEATURES_KEY: dict.fromkeys(models, features),
    }
    if len(models) == 1:
        by_model = {key: values[models[0]] for key, values in by_model.items()}
    return {tfma.constants.FEATURES_KEY: {"id": np.arange(size)}, **by_model}


def _outputs(
    task: TaskConfig,
    random: np.random.Generator,
    size: int,
    first: Sequence[Sequence[float]],
) -> np.ndarray:
    if not task.label_kind.names:
        return random.uniform(0, 5, [size, 1]).astype(np.float32)
    probabilities = random.dirichlet(np.ones(task.outputs), size)
    for row, values in enumerate(first[:size]):
        probabilities[row] = values
    return probabilities.astype(np.float32)


@click.command(help=__doc__)
@click.option("--rows", multiple=True, default=[4000], show_default=True)
@click.option("--rounds", "count", default=3, show_default=True)
def main(rows: tuple[int, ...], count: int) -> None:
    """Measures, and prints the table."""
    print(f"{rounds.describe_machine()}; the best of {count} rounds\n")
    print(measure(rows, count))


def measure(rows: Sequence[int], count: int) -> str:
    """Returns the table.

    Args:
      rows: Numbers of rows.
      count: Number of rounds; the fastest one is reported.
    """
    config = configure(TASKS["two classes"], MODELS[:1])
    reference = with_tfma_metrics(TASKS["two classes"], MODELS[:1])
    lines = []
    for size in rows:
        ours, theirs = [], []
        for _ in range(count):
            theirs.append(_measure(min(size, _TFMA_ROWS), reference, by_batch=False))
            ours.append(_measure(size, config, by_batch=True))
        lines.append((str(size), f"{min(theirs):.3f}", f"{min(ours):.4f}"))
    return rounds.table(["rows", "TFMA, ms per row", "ours, ms per row"], lines)


def _measure(size: int, config: config_pb2.EvalConfig, *, by_batch: bool) -> float:
    """Returns the milliseconds per row that metrics take, without start-up."""
    task, models = TASKS["two classes"], MODELS[:1]
    sizes = [min(size, _BATCH)] * max(size // _BATCH, 1)
    seconds = []
    for extracts in (extract(task, [1], models), extract(task, sizes, models)):
        started = time.perf_counter()
        evaluate(extracts, config, by_batch=by_batch)
        seconds.append(time.perf_counter() - started)
    return (seconds[1] - seconds[0]) / size * 1000


if __name__ == "__main__":
    main()
