"""Writes what finished runs leave in an output directory, without running them."""

import csv
import datetime

import numpy as np
import tensorflow as tf
import yaml
from ml_metadata import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts.records.data import DataVerdict
from contracts.task.definition import TaskConfig
from modules.evaluation import prediction_files
from pipeline.operations.compared_run import FinishedRun
from pipeline.operations.record import RunRecord
from tests.exported import serialize
from tests.pipeline.past_runs import ID_FORMAT

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


def write_run(root, name, task=TASK, rows=200, seed=0, *, first_id=0, texts="text {}"):
    """Writes predictions and Examples of a run, and returns what is compared of it."""
    ids = np.arange(first_id, first_id + rows)
    directory = root / f"artifacts-{name}"
    write_predictions(directory / "run", task, ids, *simulate(task, rows, seed))
    both = [(texts.format(row_id), "other") for row_id in ids]
    write_examples(directory / "examples", task, ids, both)
    return FinishedRun(
        name=name,
        settings=settings(task, seed),
        task=task,
        split="eval",
        model_run=str(directory / "run"),
        examples=str(directory / "examples"),
    )


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
        self.root = root
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(root / "metadata.sqlite")
        connection.sqlite.connection_mode = (
            mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        )
        self._store = MetadataStore(connection)

    def add(self, name, run, *, pushed=None, has_trained=True, card=None):
        """Records a run; `name` is its id, `card` its data card."""
        record = self.root / "runs" / name
        record.mkdir(parents=True)
        (record / "config.yaml").write_text(yaml.safe_dump(run.settings))
        started = datetime.datetime.strptime(name, ID_FORMAT)
        tfx_run = self._context("pipeline_run", started.isoformat())
        RunRecord(
            id=name,
            recipe="sample",
            state="pushed" if pushed else "refused" if has_trained else "failed",
            tfx_run_id=started.isoformat(),
        ).write(record)
        self._execute(tfx_run, "ImportExampleGen", "examples", run.examples)
        if card is not None:
            directory = self.root / f"data-{name}"
            DataVerdict(card=card).write(str(directory))
            self._execute(tfx_run, "DataGate", "verdict", str(directory))
        if has_trained:
            self._execute(tfx_run, "Trainer", "model_run", run.model_run)
            properties = {"pushed": int(pushed is not None)}
            if pushed is not None:
                properties["pushed_destination"] = str(pushed)
            uri = str(self.root / "pushed_model")
            self._execute(tfx_run, "AtomicPusher", "pushed_model", uri, properties)

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
