"""Inputs of the serving check for tests, from toy models and exported models."""

import json
import shutil

import numpy as np
import tensorflow as tf
import tensorflow_text as text
from tfx import v1 as tfx

from components.serving_check import ServingCheck
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from modules.evaluation import prediction_files
from modules.training import model_run
from tests import records

TASK = TaskConfig(classes=["a", "b"])


def settings_of(task=TASK, evaluator=None, **serving):
    """Returns the component's settings, as JSON.

    Args:
      task: The task.
      evaluator: Settings of `evaluator` that differ from the defaults.
      **serving: Settings of `serving` that differ from the tests' limits.
    """
    sections = Sections(
        task=task, evaluator=EvaluatorConfig(split="eval", **(evaluator or {}))
    )
    settings = json.loads(sections.model_dump_json(include=ServingCheck.READS))
    limits = {"max_memory_bytes": 4 << 30, "timeout_seconds": 60, "examples": 0}
    settings["serving"] |= {"rows": 4, **limits, **serving}
    return json.dumps(settings)


def write_predictions(exported, directory):
    """Writes the predictions of a model before its export, as the Trainer does."""
    logits = exported.logits
    regression = exported.task.classes is None
    outputs = logits[:, 0] if regression else exported.probabilities
    rows = np.arange(len(logits))
    predictions = prediction_files.Predictions(
        ids=rows, labels=rows * 0, outputs=outputs, losses=rows * 0.0
    )
    path = directory / "predictions" / "eval.tsv"
    model_run.write_predictions(str(path), exported.task, predictions)
    return path


def copy_model(exported, root):
    """Copies an exported model to where the Trainer writes one; returns the root."""
    shutil.copytree(exported.directory, root / "Format-Serving")
    return root


def artifacts(root, model, examples, predictions):
    """Returns the artifacts of the component by their parameter's name."""
    types = tfx.types.standard_artifacts
    records.write(root / "examples" / "Split-eval" / "data.gz", examples)
    made = {
        "model": (types.Model(), model),
        "examples": (types.Examples(), root / "examples"),
        "model_run": (types.ModelRun(), predictions.parent.parent),
        "blessing": (ServingCheck.SPEC_CLASS.OUTPUTS["blessing"].type(), root / "b"),
    }
    for artifact, path in made.values():
        artifact.uri = str(path)
    made["examples"][0].split_names = '["eval"]'
    return {name: artifact for name, (artifact, _) in made.items()}


def champion(directory, **properties):
    """Returns the artifact of Champion with its properties."""
    artifact = tfx.types.standard_artifacts.Model()
    artifact.uri = str(directory)
    for name, value in properties.items():
        artifact.set_string_custom_property(name, value)
    return artifact


def share(left, right):
    """Returns each text's share of the length of both."""
    lengths = [tf.cast(tf.strings.length(text), tf.float32) for text in (left, right)]
    return tf.stack(lengths, axis=1) / tf.expand_dims(lengths[0] + lengths[1], 1)


def save_toy(
    root,
    predict=share,
    columns=("sentence1", "sentence2"),
    output="probabilities",
    names=("serving_default", "serve_examples"),
    resource=None,
):
    """Writes a SavedModel with our signatures where the Trainer writes one."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, c) for c in columns])
    def serve(*texts):
        return {output: predict(*texts)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve_examples(examples):
        spec = dict.fromkeys(columns, tf.io.FixedLenFeature([], tf.string))
        parsed = tf.io.parse_example(examples, spec)
        return {output: predict(*(parsed[name] for name in columns))}

    module = tf.Module()
    module.resource = resource
    signatures = {"serving_default": serve, "serve_examples": serve_examples}
    tf.saved_model.save(
        module,
        str(root / "Format-Serving"),
        signatures={name: signatures[name] for name in names},
    )
    return root


def trim_round_robin(left, right):
    """Counts words, trimmed by an op that TensorFlow Serving 2.16 does not have."""
    words = [tf.strings.split(column) for column in (left, right)]
    trimmed = text.RoundRobinTrimmer(8).trim(words)
    rows = [tf.cast(part.row_lengths(), tf.float32) for part in trimmed]
    return tf.stack(rows, axis=1) / 8
