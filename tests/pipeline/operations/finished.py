"""Adds runs that trained a model to past runs, without running them."""

import csv
from pathlib import Path

import numpy as np
import tensorflow as tf
import yaml

from contracts.task.definition import TaskConfig
from contracts.verdicts import PUSHED_DESTINATION
from modules.evaluation import prediction_files
from pipeline.config import tfx_names
from pipeline.operations.record import SETTINGS_FILE
from pipeline.operations.run import Run
from tests.exported import serialize

TASK = TaskConfig()
LABELS = TaskConfig(kind="multilabel", classes=["joy", "love", "anger"])
SCORES = TaskConfig.model_validate({"label_range": [0.0, 5.0]})


def simulate(task, rows, seed, skill=1.5):
    """Returns labels, always the same, and a model's outputs."""
    of_labels, of_model = np.random.default_rng(7), np.random.default_rng(seed)
    if task.classes is None:
        labels = of_labels.uniform(0, 5, rows).round(1)
        return labels, labels + of_model.normal(size=rows) / skill
    if task.kind:
        labels = of_labels.integers(0, 2, (rows, task.outputs))
        logits = of_model.normal(size=labels.shape) + skill * (2 * labels - 1)
        return labels, 1 / (1 + np.exp(-logits))
    labels = of_labels.integers(0, task.outputs, rows)
    logits = of_model.normal(size=(rows, task.outputs))
    logits[np.arange(rows), labels] += skill
    return labels, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def write_predictions(directory, task, ids, labels, outputs, split="eval"):
    """Writes the predictions of a split, as the Trainer does."""
    described = prediction_files.describe_predictions(task, split)
    path = directory / described["file"]
    path.parent.mkdir(parents=True, exist_ok=True)
    header = [task.id_column, task.label_column]
    header += [] if task.classes is None else [prediction_files.PREDICTION]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow([*header, *described["columns"]])
        for row_id, label, output in zip(ids, labels, outputs, strict=True):
            row = [row_id, task.describe_label(label)]
            if task.kind:
                row.append(task.describe_label(output >= 0.5))
            elif task.classes is not None:
                row.append(task.describe_label(output.argmax()))
            writer.writerow([*row, *np.atleast_1d(output)])


def write_examples(directory, task, ids, texts, split="eval"):
    """Writes the Examples of a split; `texts` has a tuple for each row."""
    folder = directory / f"Split-{split}"
    folder.mkdir(parents=True)
    path = str(folder / "data_tfrecord-00000-of-00001.gz")
    with tf.io.TFRecordWriter(path, "GZIP") as writer:
        for row_id, row in zip(ids, texts, strict=True):
            columns = zip(task.text_columns, row, strict=True)
            features = {name: [text.encode()] for name, text in columns}
            writer.write(serialize({**features, task.id_column: [int(row_id)]}))


def settings(task, seed):
    """Returns a recipe."""
    return {
        "name": "sample",
        "task": task.model_dump(mode="json"),
        "data": {"source": "/data"},
        "encoder": {"source": "/encoder"},
        "trainer": {"seed": seed},
        "evaluator": {"split": "eval", "thresholds": {task.metric: 0.5}},
    }


def add_trained(
    past, task=TASK, rows=200, seed=0, *, texts="text {}", examples=None, **fields
):
    """Adds a run that trained a model to past runs.

    Args:
      past: The past runs.
      task: The task of its recipe.
      rows: How many it predicted.
      seed: Of its model.
      texts: The first text of a row; the second one is `other`.
      examples: The run whose Examples it read; None for its own.
      **fields: Fields of its record.

    Returns:
      The run.
    """
    record = past.run(**{"state": "refused", "recipe": "sample"} | fields)
    run = Run(past.paths, record)
    recipe = yaml.safe_dump(settings(task, seed))
    (run.directory / SETTINGS_FILE).write_text(recipe)
    read = examples and examples.artifacts[tfx_names.EXAMPLES]
    past.execute(tfx_names.EXAMPLE_GEN, [read or "examples: Examples"])
    past.execute(tfx_names.TRAINER, ["model_run: ModelRun"])
    if record.pushed:
        (pushed,) = past.execute(tfx_names.PUSHER, ["pushed_model: PushedModel"])
        past.set_property(pushed, PUSHED_DESTINATION, record.pushed)
    predictions = simulate(task, rows, seed)
    write_predictions(find(run, tfx_names.MODEL_RUN), task, range(rows), *predictions)
    if examples is None:
        both = [(texts.format(row_id), "other") for row_id in range(rows)]
        write_examples(find(run, tfx_names.EXAMPLES), task, range(rows), both)
    return run


def find(run, output):
    """Returns the directory of an artifact of a run."""
    return Path(run.artifacts[output].uri)
