"""What the serving check takes, made of toy and of exported models, for tests."""

import shutil

import numpy as np
import tensorflow as tf
import tensorflow_text as text
from tfx import v1 as tfx

from components.serving_check import ServingCheck
from modules.evaluation import metrics
from modules.export import serving_model
from modules.training import model_run as records_lib
from tests import records

REQUEST = {
    "text_columns": ["sentence1", "sentence2"],
    "text_signature": "serving_default",
    "examples_signature": "serve_examples",
    "examples_input": "examples",
    "has_text": True,
    "predictions": {
        "file": "predictions/eval.tsv",
        "id_column": "idx",
        "columns": ["probability_a", "probability_b"],
        "output": "probabilities",
    },
}


def request_of(task):
    """Returns what the component is told about a task's model."""
    return {
        **REQUEST,
        "text_columns": task.text_columns,
        "has_text": not task.is_tokenized,
        "predictions": {
            "file": "predictions/eval.tsv",
            "id_column": task.id_column,
            "columns": ["prediction"]
            if task.is_regression
            else [f"probability_{name}" for name in task.classes],
            "output": serving_model.SCORE
            if task.is_regression
            else serving_model.PROBABILITIES,
        },
    }


def write_predictions(exported, directory):
    """Writes what an exported model said before it was exported, as Trainer does."""
    logits = exported.logits
    regression = exported.task.is_regression
    outputs = logits[:, 0] if regression else tf.nn.softmax(logits).numpy()
    rows = np.arange(len(logits))
    predictions = metrics.Predictions(
        ids=rows, labels=rows * 0, outputs=outputs, losses=rows * 0.0
    )
    path = directory / "predictions" / "eval.tsv"
    records_lib.write_predictions(str(path), exported.task, predictions)
    return path


def place(exported, root):
    """Copies an exported model to where Trainer writes one; returns its artifact's."""
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


def share(left, right):
    """Gives each of two texts the share of its length."""
    lengths = [tf.cast(tf.strings.length(text), tf.float32) for text in (left, right)]
    return tf.stack(lengths, axis=1) / tf.expand_dims(lengths[0] + lengths[1], 1)


def save_toy(
    root,
    answer=share,
    columns=("sentence1", "sentence2"),
    output="probabilities",
    names=("serving_default", "serve_examples"),
    resource=None,
):
    """Writes a SavedModel with the signatures of ours where Trainer writes one."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, c) for c in columns])
    def serve(*texts):
        return {output: answer(*texts)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve_examples(examples):
        spec = dict.fromkeys(columns, tf.io.FixedLenFeature([], tf.string))
        parsed = tf.io.parse_example(examples, spec)
        return {output: answer(*(parsed[name] for name in columns))}

    module = tf.Module()
    module.resource = resource
    signatures = {"serving_default": serve, "serve_examples": serve_examples}
    tf.saved_model.save(
        module,
        str(root / "Format-Serving"),
        signatures={name: signatures[name] for name in names},
    )
    return root


def trim_by_turns(left, right):
    """Counts words, trimmed by an op that TensorFlow Serving 2.16 does not have."""
    words = [tf.strings.split(column) for column in (left, right)]
    trimmed = text.RoundRobinTrimmer(8).trim(words)
    rows = [tf.cast(part.row_lengths(), tf.float32) for part in trimmed]
    return tf.stack(rows, axis=1) / 8
