"""Writes what finished runs leave in an output directory, without running them."""

import csv

import numpy as np
import tensorflow as tf
import yaml
from ml_metadata import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts.task.definition import TaskConfig
from modules.evaluation import prediction_files
from pipeline.config.paths import OutputPaths
from pipeline.operations.record import RunRecord
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


class Output:
    """An output directory whose runs are recorded as TFX and `run` do."""

    def __init__(self, root):
        """Creates the database."""
        self.paths = OutputPaths(root, "sample")
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(self.paths.metadata)
        connection.sqlite.connection_mode = (
            mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        )
        self._store = MetadataStore(connection)

    def directory(self, run_id):
        """Returns the directory of the predictions, `run`, and `examples` of a run."""
        return self.paths.root / f"artifacts-{run_id}"

    def add(
        self,
        run_id,
        task=TASK,
        rows=200,
        seed=0,
        *,
        texts="text {}",
        examples=None,
        pushed=None,
        has_trained=True,
    ):
        """Writes a run.

        Args:
          run_id: Its id.
          task: The task of its recipe.
          rows: How many it predicted.
          seed: Of its model.
          texts: The first text of a row; the second one is `other`.
          examples: Id of the run whose Examples it read; None for its own.
          pushed: The directory of the version that it pushed.
          has_trained: Whether its Trainer finished.

        Returns:
          The run.
        """
        ids, directory = range(rows), self.directory(run_id)
        write_predictions(directory / "run", task, ids, *simulate(task, rows, seed))
        if examples is None:
            both = [(texts.format(row_id), "other") for row_id in ids]
            write_examples(directory / "examples", task, ids, both)
        record = RunRecord(
            id=run_id,
            recipe="sample",
            state="pushed" if pushed else "refused" if has_trained else "failed",
            tfx_run_id=run_id,
        )
        run = Run(self.paths, record)
        run.directory.mkdir(parents=True)
        recipe = yaml.safe_dump(settings(task, seed))
        (run.directory / "config.yaml").write_text(recipe)
        record.write(run.directory)
        tfx_run = self._context("pipeline_run", run_id)
        read = self.directory(examples or run_id) / "examples"
        self._execute(tfx_run, "ImportExampleGen", "examples", str(read))
        if has_trained:
            self._execute(tfx_run, "Trainer", "model_run", str(directory / "run"))
            properties = {"pushed": int(pushed is not None)}
            if pushed is not None:
                properties["pushed_destination"] = str(pushed)
            uri = str(self.paths.root / "pushed_model")
            self._execute(tfx_run, "AtomicPusher", "pushed_model", uri, properties)
        return run

    def _context(self, kind, name):
        type_id = self._store.put_context_type(mlmd.ContextType(name=kind))
        return mlmd.Context(type_id=type_id, name=name)

    def _execute(self, run, component, key, uri, properties=()):
        kinds = self._store
        kind = "PushedModel" if key == "pushed_model" else key
        execution = mlmd.Execution(
            type_id=kinds.put_execution_type(mlmd.ExecutionType(name=component)),
            last_known_state=mlmd.Execution.COMPLETE,
        )
        artifact = mlmd.Artifact(
            type_id=kinds.put_artifact_type(mlmd.ArtifactType(name=kind)),
            uri=uri,
            state=mlmd.Artifact.LIVE,
        )
        for name, value in dict(properties).items():
            field = "int_value" if isinstance(value, int) else "string_value"
            setattr(artifact.custom_properties[name], field, value)
        event = mlmd.Event(type=mlmd.Event.OUTPUT)
        event.path.steps.add(key=key)
        event.path.steps.add(index=0)
        node = mlmd.Context(
            type_id=kinds.put_context_type(mlmd.ContextType(name="node")),
            name=f"sample.{component}",
        )
        kinds.put_execution(
            execution,
            [(artifact, event)],
            [run, node],
            reuse_context_if_already_exist=True,
        )
