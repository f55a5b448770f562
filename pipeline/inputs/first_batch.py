"""The first training batch of a recipe, without a run."""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Any

from contracts.errors import UsageError
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from ingest import examples as examples_lib
from ingest.examples import tf_examples
from ingest.examples.splits import Report
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.inputs import encoder_source

# TensorFlow and its metadata are imported in the functions: `--help` must not wait.
if TYPE_CHECKING:
    from modules.data.inputs import Batch

# TensorFlow's prefix of a message: the node, the failed assertion.
_PREFIX = re.compile(r"^\{\{.*?\}\} |^.*Summarized data: ")


def read_first_batch(config: Config, report: Report) -> tuple[Batch, str]:
    """Tokenizes and batches the first rows of the training split, as a run does.

    Returns:
      The batch, and the path of the encoder's vocabulary.

    Raises:
      UsageError: A source is missing or malformed, or does not fit the settings.
    """
    import tensorflow as tf
    from tensorflow_transform.tf_metadata import schema_utils

    from modules.data import preprocessing
    from modules.training import experiment, model_run
    from pipeline.inputs import schema

    paths = OutputPaths.of(config)
    encoder = encoder_source.resolve_encoder(config, paths, report)
    source, task = config.data_source, config.task
    examples = examples_lib.resolve_examples(
        source, task, paths.examples, report, config.data, config.halving
    )
    files = examples_lib.list_examples(examples, TRAIN_SPLIT)
    # TFRecordDataset does not detect the compression.
    compression = "GZIP" if files[0].endswith(".gz") else ""
    records = tf.data.TFRecordDataset(files, compression).batch(model_run.MOST_ROWS)
    try:
        serialized = next(iter(records), None)
    except tf.errors.DataLossError as e:
        raise UsageError(
            source,
            f"{TRAIN_SPLIT} cannot be read ({_one_line(e)})",
            advice="write its files again",
            name="E-rows-refused",
        ) from e
    if serialized is None:
        raise UsageError(
            source,
            f"{TRAIN_SPLIT} has no rows",
            advice="add some",
            name="E-rows-refused",
        )
    spec = schema_utils.schema_as_feature_spec(schema.build_schema(task)).feature_spec
    settings = {
        "task": task.model_dump(),
        "packing": config.preprocessing.key(),
        "vocab_file": encoder.vocab_file,
    }
    try:
        raw = tf.io.parse_example(serialized, spec)
        features = preprocessing.preprocessing_fn(raw, settings)
        _check_labels(features, task)
    except (tf.errors.InvalidArgumentError, ValueError) as e:
        raise UsageError(
            source,
            f"a row of {TRAIN_SPLIT} is not valid ({_one_line(e)})",
            advice="correct it, or the settings of the task",
            name="E-rows-refused",
        ) from e
    columns = {
        name: tf.RaggedTensor.from_sparse(values).to_list()
        if isinstance(values, tf.SparseTensor)
        else values.numpy().tolist()
        for name, values in features.items()
    }
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "transformed.gz")
        with tf.io.TFRecordWriter(path, options="GZIP") as writer:
            for values in zip(*columns.values(), strict=True):
                row = dict(zip(columns, values, strict=True))
                writer.write(tf_examples.from_row(row))
        data = experiment.examples_config(task, [path], config.trainer)
        data.is_training, data.examples = True, len(serialized)
        return model_run.first_batch(data), encoder.vocab_file


def _check_labels(features: dict[str, Any], task: TaskConfig) -> None:
    """Refuses labels that are not the index of a class: -1 would show the last one."""
    kind = task.label_kind
    if not kind.names:
        return
    labels = features[task.label_column].numpy().tolist()
    ids = features[task.id_column].numpy()[:, 0]
    for values, row_id in zip(labels, ids, strict=True):
        if kind.read(values) is None:
            raise ValueError(
                f"{task.label_column} of row {row_id} is "
                f"{', '.join(map(str, values))}, allowed are {kind.low} to {kind.high}"
            )


def _one_line(error: Exception) -> str:
    """Returns the message of an error in one line, without TensorFlow's prefix."""
    return _PREFIX.sub("", " ".join(str(error).split()))[:300]
