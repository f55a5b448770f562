"""Models of every kind of task, exported as Trainer does, for tests."""

import dataclasses
import fcntl
import shutil
from pathlib import Path

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
import tf_keras
from official.nlp.modeling import models
from tensorflow_transform.tf_metadata import schema_utils

from contracts.packing import LongTextConfig, Packing
from contracts.settings.trainer import TrainerConfig
from contracts.task.definition import TOKENIZED_FEATURES, TaskConfig
from contracts.versions import exported_model
from modules import environment
from modules.data import inputs, preprocessing
from modules.encoder.directory import open_encoder
from modules.encoder.model import build_encoder
from modules.encoder.restoring import restore_encoder
from modules.encoder.window_classifier import WindowClassifier
from modules.export import serving_model
from modules.training import experiment
from modules.training.heads import ScoreScale, build_head
from pipeline.inputs.schema import build_schema
from tests import tiny

MAX_SEQ_LENGTH = 24
RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"

PAIRS = [
    ("The cat sees the tree.", "A dog likes a road!"),
    ("the", "a"),
    ("the cat " * 40, "a dog " * 30),
    ("", ""),
]
TEMPERATURE = 1.5
_CLASSES = ["no", "maybe", "yes"]
TASKS = {
    # Not in alphabetic order: a signature sorts its arguments, the task does not.
    "pairs": TaskConfig(text_columns=["question", "answer"], classes=_CLASSES),
    "sentences": TaskConfig(text_columns=["sentence"], classes=["bad", "good"]),
    "scores": TaskConfig(label_range=[0, 5]),
    "a curated schema": TaskConfig(text_columns=["sentence"]),
    "labels": TaskConfig(
        text_columns=["sentence"],
        kind="multilabel",
        classes=_CLASSES,
    ),
    "tokens of pairs": TaskConfig(
        input="tokenized", text_columns=["question", "answer"], classes=_CLASSES
    ),
    # Columns with names of the pipeline's own features.
    "tokens of sentences": TaskConfig(
        input="tokenized",
        text_columns=["sentence"],
        label_column="token_length",
        id_column="input_word_ids",
        label_range=[0, 1],
    ),
}


@dataclasses.dataclass(frozen=True)
class Exported:
    """An exported model whose training data have been deleted.

    Attributes:
      task: The task it was trained for.
      directory: The SavedModel.
      logits: Outputs for each row before the export, float32[rows, units].
    """

    task: TaskConfig
    directory: Path
    logits: np.ndarray

    @property
    def probabilities(self):
        """Those of the exported model, float32[rows, classes]."""
        if self.task.kind:
            return tf.sigmoid(self.logits / TEMPERATURE).numpy()
        return tf.nn.softmax(self.logits / TEMPERATURE).numpy()


def rows_of(task, texts, labels=None, vocab_file=None):
    """Returns the features of Examples as lists: text, or tokens for a tokenized task.

    Args:
      task: Names the columns.
      texts: A tuple of texts for each row.
      labels: A label, or a list of several, for each row; None leaves label and id out.
      vocab_file: Splits the texts of a tokenized task.
    """
    columns = [list(column) for column in zip(*texts, strict=True)]
    if task.is_tokenized:
        packed = preprocessing.text_to_inputs(
            [tf.constant(column) for column in columns],
            vocab_file,
            Packing(max_seq_length=MAX_SEQ_LENGTH),
        )
        padded = preprocessing.pad_inputs(
            packed["input_word_ids"], packed["input_type_ids"], MAX_SEQ_LENGTH
        )
        names = ("input_word_ids", "input_mask", "input_type_ids")
        arrays = [padded[name].numpy().tolist() for name in names]
        rows = [
            dict(zip(TOKENIZED_FEATURES, row, strict=True))
            for row in zip(*arrays, strict=True)
        ]
    else:
        rows = [
            {name: [t.encode()] for name, t in zip(task.text_columns, row, strict=True)}
            for row in texts
        ]
    for index, label in enumerate([] if labels is None else labels):
        values = label if isinstance(label, list) else [label]
        rows[index] |= {task.label_column: values, task.id_column: [index]}
    return rows


def serialize(row):
    """Returns one row as a serialized tf.Example."""
    kinds = {bytes: "bytes_list", int: "int64_list", float: "float_list"}
    example = tf.train.Example()
    for name, values in row.items():
        kind = kinds[type(values[0])]
        getattr(example.features.feature[name], kind).value.extend(values)
    return example.SerializeToString()


def raw_spec(kind):
    """Returns the feature spec of the task's schema, or of a curated one."""
    schema = build_schema(TASKS[kind])
    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    if kind == "a curated schema":  # bounds columns by `value_count`
        return {name: tf.io.VarLenFeature(spec[name].dtype) for name in spec}
    if kind == "tokens of sentences":  # fixes the length by `shape`
        fixed = tf.io.FixedLenFeature([MAX_SEQ_LENGTH], tf.int64)
        return {**spec, **dict.fromkeys(TOKENIZED_FEATURES, fixed)}
    return spec


def run_transform(
    root, kind, rows, vocab_file, max_seq_length=MAX_SEQ_LENGTH, **packing
):
    """Writes Transform's graph and the transformed rows."""
    metadata = tft.DatasetMetadata.from_feature_spec(raw_spec(kind))
    custom_config = {
        "task": TASKS[kind].model_dump(),
        "packing": {"max_seq_length": max_seq_length, **packing},
        "vocab_file": vocab_file,
    }
    with (
        beam.Pipeline(runner=RUNNER) as pipeline,
        tft_beam.Context(temp_dir=str(root / "temp")),
    ):
        data = (pipeline | beam.Create(rows), metadata)
        (transformed, out), transform_fn = data | tft_beam.AnalyzeAndTransformDataset(
            lambda x: preprocessing.preprocessing_fn(x, custom_config)
        )
        transform_fn | tft_beam.WriteTransformFn(str(root / "graph"))
        metadata | tft_beam.WriteMetadata(str(root / "graph" / "metadata"), pipeline)
        coder = tft.coders.ExampleProtoCoder(out.schema)
        (
            transformed
            | beam.Reshuffle()
            | beam.Map(coder.encode)
            | beam.io.WriteToTFRecord(
                str(root / "examples"), file_name_suffix=".gz", num_shards=1
            )
        )
    return tft.TFTransformOutput(str(root / "graph"))


def build_model(encoder, outputs, long_text=None):
    """Builds the classifier with the encoder's weights and a head of seed 0."""
    make, windows = models.BertClassifier, {}
    if long_text:
        make = WindowClassifier
        windows = LongTextConfig(**long_text).model_dump(exclude={"stride"})
    model = make(
        **windows,
        network=build_encoder(encoder, dropout=0.5),
        num_classes=outputs,
        initializer=tf_keras.initializers.TruncatedNormal(stddev=0.5, seed=0),
        dropout_rate=0.5,
    )
    restore_encoder(model.checkpoint_items["encoder"], encoder)
    return model


def export_once(root, kind):
    """Exports the tiny model of a kind of task unless it exists.

    Args:
      root: A directory that several processes may share.
      kind: A key of `TASKS`.

    Returns:
      The model, which tests must not change.
    """
    directory = root / kind.replace(" ", "-")
    logits = directory / "logits.npy"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not logits.exists():
            np.save(logits, export_tiny(directory, kind).logits)
    return Exported(TASKS[kind], directory / "served" / "1", np.load(logits))


def export_tiny(root, kind, vocab=None, threshold=None):
    """Exports the tiny model of a kind of task, and deletes its training data.

    Args:
      root: An empty directory; the SavedModel is moved to `served/1` there.
      kind: A key of `TASKS`. Transform runs over `PAIRS`, or their first texts.
      vocab: Tokens instead of the tiny encoder's.
      threshold: That of the positive class of two, or those of several labels.
    """
    # Random scales of LayerNorm leave outputs that hardly differ from row to row.
    ones = {
        name: np.ones_like(tensor)
        for name, tensor in tiny.hugging_face_tensors().items()
        if name.endswith("LayerNorm.weight")
    }
    path = tiny.write_encoder(root / "training" / "encoder", **ones)
    if vocab:
        (path / "vocab.txt").write_text("\n".join(vocab) + "\n")
    encoder = open_encoder(str(path))
    return export(root, kind, encoder, MAX_SEQ_LENGTH, threshold)


def export(root, kind, encoder, max_seq_length, threshold=None, **settings):
    """Exports a model of an encoder as `export_tiny` does.

    Args:
      root: The SavedModel is moved to `served/1` there, and `training` is deleted.
      kind: As for `export_tiny`.
      encoder: The encoder's directory.
      max_seq_length: Longest packed example in tokens.
      threshold: As for `export_tiny`.
      **settings: Other settings of `Packing`.
    """
    packing = Packing(max_seq_length=max_seq_length, **settings)
    environment.set_up()
    task = TASKS[kind]
    texts = [pair[: len(task.text_columns)] for pair in PAIRS]
    training = root / "training"
    labels = [0.5 if task.classes is None else 0] * len(texts)
    if task.kind:
        labels = [[0] * task.outputs] * len(texts)
    rows = rows_of(task, texts, labels, encoder.vocab_file)
    transform = run_transform(
        training, kind, rows, encoder.vocab_file, max_seq_length, **settings
    )
    model = build_model(encoder, task.outputs, settings.get("long_text"))
    head = build_head(task.label_kind, ScoreScale())
    serving_model.export_model(
        serving_model.TracedModel(model),
        transform,
        task,
        head.serve,
        str(training / "saved_model"),
        vocab_file=encoder.vocab_file,
        packing=packing,
        temperature=TEMPERATURE,
        threshold=threshold,
    )
    serving_model.describe_model(
        str(training / "saved_model"),
        task,
        encoder,
        packing=packing,
        precision="float32",
        fitted=head.description
        if not task.label_kind.names
        else {
            **head.description,
            exported_model.TEMPERATURE: TEMPERATURE,
            **({} if threshold is None else {exported_model.THRESHOLD: threshold}),
        },
    )
    rows_by_one = experiment.examples_config(
        task, [f"{training}/examples*"], TrainerConfig(batch_size=1)
    )
    logits = {
        int(targets["ids"][0]): model(batch, training=False).numpy()[0]
        for batch, targets in inputs.build_batches(rows_by_one)
    }
    directory = root / "served" / "1"
    directory.parent.mkdir()
    shutil.move(training / "saved_model", directory)
    shutil.rmtree(training)
    return Exported(task, directory, np.stack([logits[i] for i in range(len(texts))]))
