"""Batches as TFX's Evaluator extracts them, and TFMA's own metrics as a reference."""

import copy
import json

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma

from modules.config.task import TaskConfig
from modules.evaluation import eval_config, tfma_metrics
from modules.export import signatures

TASKS = {
    "two classes": TaskConfig(),
    "three classes": TaskConfig(classes=["no", "maybe", "yes"]),
    "scores": TaskConfig(label_range=[0, 5]),
}
MODELS = (tfma.CANDIDATE_KEY, tfma.BASELINE_KEY)
# TFMA's metrics with the values of our statistics.
_TFMA_CLASSES = {
    "example_count": "ExampleCount",
    tfma_metrics.CONFUSION_MATRIX: "MultiClassConfusionMatrixPlot",
    "binary_accuracy": "BinaryAccuracy",
    "binary_f1": "F1Score",
    "precision": "Precision",
    "recall": "Recall",
    "auc": "AUC",
    "binary_cross_entropy": "BinaryCrossEntropy",
    "calibration": "Calibration",
    "accuracy": "SparseCategoricalAccuracy",
    "cross_entropy": "SparseCategoricalCrossentropy",
    "mse": "MeanSquaredError",
    "mae": "MeanAbsoluteError",
}

_results: dict = {}  # of the last evaluation: the runner copies a closure


def configure(task, models=MODELS):
    """Returns the Evaluator's configuration for some models, the last a baseline."""
    return tfma.utils.update_eval_config_with_defaults(
        eval_config.build_eval_config(task), has_baseline=len(models) > 1
    )


def with_tfma_metrics(config):
    """Returns the configuration with TFMA's own metrics, where it has them."""
    config = copy.deepcopy(config)
    for spec in config.metrics_specs:
        metrics = list(spec.metrics)
        del spec.metrics[:]
        for metric in metrics:
            options = json.loads(f"{{{metric.config}}}")
            class_name = _TFMA_CLASSES.get(options["statistic"])
            if class_name:
                name = options.get("name")
                text = f'"name": "{name}"' if name else ""
                spec.metrics.add(class_name=class_name, config=text)
    return config


def extract(task, sizes, models=MODELS, first=()):
    """Returns random extracts of batches of some sizes.

    Args:
      task: The task.
      sizes: Rows of each batch.
      models: Names of the models.
      first: Outputs of the first rows.
    """
    random = np.random.default_rng(0)
    return [_batch(task, random, size, models, first) for size in sizes]


def evaluate(extracts, config, *, by_batch):
    """Returns TFMA's metrics and plots by slice.

    Args:
      extracts: Those of each batch.
      config: The Evaluator's configuration.
      by_batch: Whether whole batches are sliced, or rows, as TFMA does.
    """
    if by_batch:
        slices = [beam.ParDo(tfma_metrics.SliceBatch(config))]
    else:
        slices = [
            tfma.extractors.UnbatchExtractor().ptransform,
            tfma.extractors.SliceKeyExtractor(eval_config=config).ptransform,
        ]
    evaluator = tfma.evaluators.MetricsPlotsAndValidationsEvaluator(config)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        rows = pipeline | beam.Create(extracts, reshuffle=False)
        for index, transform in enumerate(slices):
            rows |= str(index) >> transform
        outputs = rows | evaluator.ptransform
        for kind in ("metrics", "plots"):
            _ = (
                outputs[kind]
                | f"List {kind}" >> beam.combiners.ToList()
                | f"Collect {kind}" >> beam.Map(_collect, kind)
            )
    return {kind: _results[kind] for kind in ("metrics", "plots")}


def _collect(items, kind):
    _results[kind] = dict(items)


def _batch(task, random, size, models, first):
    lengths = random.choice([b"0-19", b"20-39", b"60+"], size, p=[0.6, 0.39, 0.01])
    if task.is_regression:
        labels = random.uniform(0, 5, size).astype(np.float32)
    else:
        labels = random.integers(0, task.outputs, size)
        labels[lengths == b"20-39"] = 1  # a slice of one class
    outputs = {name: _outputs(task, random, size, first) for name in models}
    features = {"pair_length": lengths, "word_overlap": np.full(size, b"25-49")}
    output = signatures.prediction_output(task)
    predictions = {name: {output: values} for name, values in outputs.items()}
    by_model = {
        tfma.constants.LABELS_KEY: dict.fromkeys(models, labels[:, np.newaxis]),
        tfma.constants.PREDICTIONS_KEY: predictions,
        tfma.constants.TRANSFORMED_FEATURES_KEY: dict.fromkeys(models, features),
    }
    if len(models) == 1:
        by_model = {key: values[models[0]] for key, values in by_model.items()}
    return {tfma.constants.FEATURES_KEY: {"id": np.arange(size)}, **by_model}


def _outputs(task, random, size, first):
    if task.is_regression:
        return random.uniform(0, 5, [size, 1]).astype(np.float32)
    probabilities = random.dirichlet(np.ones(task.outputs), size)
    for row, values in enumerate(first[:size]):
        probabilities[row] = values
    return probabilities.astype(np.float32)
