"""Transformed Examples as batches of the model's inputs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from official.core import config_definitions

from contracts.packing import Packing
from contracts.storage import files
from modules.data import preprocessing

LABELS = "labels"
WEIGHTS = "weights"
ROW_WEIGHTS = "row_weights"
IDS = "ids"
POSITIONS = "positions"

_ENDLESS = 1 << 40  # epochs
_FIXED_LENGTHS = 4

Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]


@dataclasses.dataclass
class ExamplesConfig(config_definitions.DataConfig):
    """Which transformed Examples to read, and how to batch them.

    Attributes:
      word_ids_column: Name of the token ids.
      type_ids_column: Name of the token types.
      label_column: Name of the label.
      id_column: Name of the int64 id.
      weight_column: Name of the float32 weight of a row in the training loss; None if
        there are no weights.
      label_dtype: Type of the label, `int64` or `float32`.
      label_size: Number of values in the label column.
      lengths: Lengths in tokens that batches are padded to, the first that fits; empty
        pads to the longest row.
      window_batches: Rows are sorted by length within a window of this many random
        batches: padding falls to a few percent, and the order stays close to random. 1
        does not sort.
      shuffle_buffer_size: Size of the shuffle buffer in examples. A split that fits is
        read once, stays in memory and is shuffled as a whole; a larger one is read
        again each epoch, its files in random order.
      examples: Number of examples in the split; None counts them.
      first_rows: Number of rows to read, from the first of the split; None reads all.
        Training ignores it if the split is larger than the shuffle buffer.
      start_step: Number of training steps already done. Their batches are skipped.
      host_examples: Number of examples of each host, if `input_path` has only this
        host's files; empty if every host reads all files and takes its share of each
        batch.
      host: Index of this host in `host_examples`.
      workers: Number of asynchronous workers. Each trains on its share of the batches;
        1 gives all batches to every input pipeline.
    """

    word_ids_column: str = preprocessing.INPUT_WORD_IDS
    type_ids_column: str = preprocessing.INPUT_TYPE_IDS
    label_column: str = "label"
    id_column: str = "idx"
    weight_column: str | None = None
    label_dtype: str = "int64"
    label_size: int = 1
    lengths: list[int] = dataclasses.field(default_factory=list)
    window_batches: int = 16
    shuffle_buffer_size: int = 1_000_000
    examples: int | None = None
    first_rows: int | None = None
    start_step: int = 0
    host_examples: list[int] = dataclasses.field(default_factory=list)
    host: int = 0
    workers: int = 1


def fixed_lengths(packing: Packing) -> list[int]:
    """Returns a few padded lengths for XLA, which compiles a program for each of them.

    Args:
      packing: The packing of texts. With windows, the lengths are multiples of theirs.
    """
    unit = packing.long_text.window if packing.long_text else 1
    parts = range(1, _FIXED_LENGTHS + 1)
    return [
        math.ceil(packing.most_tokens * part / _FIXED_LENGTHS / unit) * unit
        for part in parts
    ]


def suffices_for_hosts(paths: Sequence[str], hosts: int) -> bool:
    """Returns whether there are several hosts and a file for each of them."""
    return 1 < hosts <= len(paths)


def count_steps(config: ExamplesConfig) -> int:
    """Returns the number of batches that hold each example once.

    If hosts have separate files, all take as many steps as the host with the most
    examples.

    Args:
      config: `examples` or `host_examples` must be set.
    """
    examples = max(config.host_examples, default=config.examples)
    assert examples is not None
    return math.ceil(examples / _host_batch_size(config))


def read_records(config: ExamplesConfig) -> tf.data.Dataset:
    """Reads serialized transformed Examples, string[], interleaving a few files.

    Args:
      config: `input_path` holds file patterns of gzipped TFRecords.
    """
    return _read(_files(config)).take(config.first_rows or -1)


def count_examples(config: ExamplesConfig) -> int:
    """Counts the examples by reading them once."""
    one = tf.constant(1, tf.int64)
    records = without_autotuning(read_records(config))
    return int(records.reduce(one - 1, lambda count, _: count + one))


def label_feature(config: ExamplesConfig) -> tf.io.FixedLenFeature:
    """Returns how the label of an Example is parsed."""
    shape = [config.label_size] if config.label_size > 1 else []
    return tf.io.FixedLenFeature(shape, tf.as_dtype(config.label_dtype))


def parse_examples(records: tf.Tensor, config: ExamplesConfig) -> tuple[Any, ...]:
    """Parses a batch of transformed Examples, unpadded.

    Args:
      records: Serialized, string[batch].
      config: Names the columns.

    Returns:
      Word ids and type ids int64[batch, (tokens)]; labels int64[batch],
      int64[batch, label_size] or float32[batch]; ids int64[batch]; with a
      `weight_column` also its values, float32[batch].
    """
    ids = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    features = {
        config.word_ids_column: ids,
        config.type_ids_column: ids,
        config.label_column: label_feature(config),
        config.id_column: tf.io.FixedLenFeature([], tf.int64),
    }
    if config.weight_column is not None:
        features[config.weight_column] = tf.io.FixedLenFeature([], tf.float32)
    examples = tf.io.parse_example(records, features)
    return tuple(examples[name] for name in features)


def build_batches(
    config: ExamplesConfig, input_context: tf.distribute.InputContext | None = None
) -> tf.data.Dataset:
    """Builds the batches of one input pipeline.

    The global batches are the same with any strategy; each replica gets its share of
    the rows. Only hosts with separate files (`host_examples`) draw other batches: each
    adds an equal share, of rows of similar length, to a global batch. For several
    replicas, and for XLA, rows of weight 0 fill a batch that is too small. Asynchronous
    workers get whole batches, each worker its share of them.

    Args:
      config: Which Examples. Training repeats forever, evaluation is one pass.
      input_context: Which replicas the pipeline feeds; None feeds one.

    Returns:
      A dataset of `(inputs, targets)`: the encoder's inputs int32[batch, seq_len];
      `labels` int64[batch], int64[batch, label_size] or float32[batch]; `weights`
      float32[batch], 0 for rows that fill a batch and 1 for all others; `ids`
      int64[batch]; with a `weight_column` also `row_weights` float32[batch]; for
      evaluation also `positions` int64[batch], the rows' positions in the split,
      because sorting by length changes their order.
    """
    build = _train_batches if config.is_training else _evaluation_batches
    batches = build(config)
    if config.is_training and config.workers > 1:
        # All workers run one graph, so a worker's index is known only at run time.
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        batches = share_among_workers(batches, config, worker)
    batches = batches.map(
        lambda *columns: pad_batch(
            columns, config.lengths, has_weights=config.weight_column is not None
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    context = input_context or tf.distribute.InputContext()
    # XLA compiles a program for each shape. A smaller last batch would add one.
    if context.num_replicas_in_sync > 1 or config.lengths:
        batches = _share_out(batches, config, context)
    # Two batches suffice: making one takes far less than a training step.
    return without_autotuning(batches.prefetch(2))


def _host_batch_size(config: ExamplesConfig) -> int:
    """Returns the number of rows that one host contributes to a global batch."""
    return config.global_batch_size // max(len(config.host_examples), 1)


def _train_batches(config: ExamplesConfig) -> tf.data.Dataset:
    """Batches rows of similar length, forever, each epoch in a new random order.

    An epoch holds each example once; its last batch may be smaller. The order depends
    only on seed and epoch, so that an interrupted training resumes with the rows that
    it has not seen.
    """
    size, buffer = _host_batch_size(config), config.shuffle_buffer_size
    examples = config.examples or count_examples(config)
    config = dataclasses.replace(config, examples=examples)
    if config.host_examples:
        examples = config.host_examples[config.host]
    kept = read_records(config).cache() if examples <= buffer else None

    def epoch(index: tf.Tensor) -> tf.data.Dataset:
        # Otherwise the shuffles would also depend on the process's global seed.
        tf.compat.v1.set_random_seed(1)
        seed = _fold(tf.constant(config.seed or 0, tf.int64), index)
        in_order = {"seed": seed, "reshuffle_each_iteration": False}
        # There are fewer files than examples, so the buffer holds all of them.
        records = kept or _read(_files(config).shuffle(buffer, **in_order))

        def batches(number: tf.Tensor, window: tf.Tensor) -> tf.data.Dataset:
            return _batch_by_length(parse_examples(window, config), size).shuffle(
                config.window_batches,
                seed=_fold(seed, number),
                reshuffle_each_iteration=False,
            )

        windows = records.shuffle(buffer, **in_order).batch(
            size * config.window_batches
        )
        return _complete(windows.enumerate().flat_map(batches), config)

    if not config.start_step:
        return tf.data.Dataset.range(_ENDLESS).flat_map(epoch)
    first, offset = divmod(config.start_step, count_steps(config))
    return tf.data.Dataset.range(first, _ENDLESS).flat_map(epoch).skip(offset)


def share_among_workers(
    batches: tf.data.Dataset, config: ExamplesConfig, worker: tf.Tensor
) -> tf.data.Dataset:
    """Returns every n-th batch for one of n workers, in the order of the training.

    A resumed worker skips the batches of its own steps, not those of all steps.
    """
    first = tf.math.floormod(worker - config.start_step, config.workers)
    return batches.shard(config.workers, first)


def _evaluation_batches(config: ExamplesConfig) -> tf.data.Dataset:
    """Batches rows of similar length in one pass, with their positions in the split."""
    size = _host_batch_size(config)
    windows = read_records(config).enumerate().batch(size * config.window_batches)

    def batches(positions: tf.Tensor, records: tf.Tensor) -> tf.data.Dataset:
        if config.host_examples:  # the hosts' rows alternate
            positions = positions * len(config.host_examples) + config.host
        return _batch_by_length((*parse_examples(records, config), positions), size)

    return _complete(windows.flat_map(batches), config)


def _complete(batches: tf.data.Dataset, config: ExamplesConfig) -> tf.data.Dataset:
    """Appends batches without rows until all hosts have the same number of batches."""
    if not config.host_examples:
        return batches
    count = math.ceil(config.host_examples[config.host] / _host_batch_size(config))
    empty = parse_examples(tf.zeros([0], tf.string), config)
    if not config.is_training:
        empty = (*empty, tf.zeros([0], tf.int64))
    filler = tf.data.Dataset.from_tensors(empty).repeat(count_steps(config) - count)
    return batches.concatenate(filler)


def _files(config: ExamplesConfig) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(files.list_records(config.input_path))


def _read(paths: tf.data.Dataset) -> tf.data.Dataset:
    return paths.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression_type="GZIP"),
        cycle_length=16,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the dataset with fixed parallelism.

    Deleting an autotuned pipeline can block for a minute, because its thread can miss
    the notification to stop (TensorFlow's `Model::OptimizeLoop`).
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _batch_by_length(columns: tuple[Any, ...], size: int) -> tf.data.Dataset:
    order = tf.argsort(columns[0].row_lengths())
    starts = tf.data.Dataset.range(0, tf.size(order, tf.int64), size)
    # Rows are gathered by batch: one by one they take five times as long.
    return starts.map(
        lambda start: tuple(
            tf.gather(column, order[start : start + size]) for column in columns
        )
    )


def _fold(seed: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Derives a seed int64[] from a seed and an index."""
    return tf.random.stateless_uniform(
        [], seed=[seed, index], minval=None, maxval=None, dtype=tf.int64
    )


def pad_batch(
    columns: tuple[Any, ...], lengths: list[int], *, has_weights: bool = False
) -> Batch:
    """Pads a batch, and names its columns.

    Args:
      columns: The result of `parse_examples`; for evaluation also the rows' positions
        in the split, int64[batch].
      lengths: Lengths in tokens, the first that fits; empty pads to the longest row.
      has_weights: Whether the columns have the weights of a `weight_column`.
    """
    word_ids, type_ids, labels, ids, *others = columns
    inputs = preprocessing.pad_inputs(word_ids, type_ids)
    if lengths:
        longest = tf.shape(inputs[preprocessing.INPUT_WORD_IDS])[1]
        fitting = tf.gather(lengths, tf.searchsorted(lengths, [longest])[0])
        paddings = [[0, 0], [0, fitting - longest]]
        inputs = {name: tf.pad(ids, paddings) for name, ids in inputs.items()}
    weights = tf.ones_like(ids, tf.float32)
    targets = {LABELS: labels, WEIGHTS: weights, IDS: ids}
    names = (ROW_WEIGHTS, POSITIONS) if has_weights else (POSITIONS,)
    return inputs, targets | dict(zip(names, others, strict=False))


def _share_out(
    batches: tf.data.Dataset,
    config: ExamplesConfig,
    context: tf.distribute.InputContext,
) -> tf.data.Dataset:
    size = _host_batch_size(config)
    per_replica = context.get_per_replica_batch_size(config.global_batch_size)
    replicas = context.num_replicas_in_sync // context.num_input_pipelines
    has_own_files = bool(config.host_examples)
    first = 0 if has_own_files else context.input_pipeline_id * replicas * per_replica

    def share(tensor: tf.Tensor) -> tf.Tensor:
        missing = [[0, size - tf.shape(tensor)[0]]]
        # A batch without rows has no columns; one is needed to fill it with rows.
        if tensor.shape.rank > 1:
            missing.append([0, tf.maximum(1 - tf.shape(tensor)[1], 0)])
        rows = tf.pad(tensor, missing)[first : first + replicas * per_replica]
        rows = tf.reshape(
            rows, tf.concat([[replicas, per_replica], tf.shape(rows)[1:]], 0)
        )
        return tf.ensure_shape(rows, [replicas, per_replica, *tensor.shape[1:]])

    shares = batches.map(
        lambda *batch: tf.nest.map_structure(share, batch),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return shares.unbatch()
