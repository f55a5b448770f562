"""From raw examples to the model's inputs, in training and in serving.

Transform runs `preprocessing_fn` over all examples and saves its graph. The exported
model runs the same graph on raw text, so that there is no skew.
"""

from __future__ import annotations

import functools
import math
import os
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from contracts.packing import DEFAULT_KEEP, Keep, LongTextConfig, Packing
from contracts.task.definition import NO_ID, TOKENIZED_FEATURES, TaskConfig
from modules import encoder_files
from modules.data import tokenizer_files
from modules.data.tokenization import BertTokenizer

INPUT_WORD_IDS = "input_word_ids"
INPUT_MASK = "input_mask"
INPUT_TYPE_IDS = "input_type_ids"
ENCODER_INPUTS = (INPUT_WORD_IDS, INPUT_MASK, INPUT_TYPE_IDS)

_DEFAULT_TYPES = 2  # BERT's, for a vocabulary without a configuration next to it


def preprocessing_fn(
    inputs: dict[str, tf.Tensor | tf.SparseTensor], custom_config: dict[str, Any]
) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Turns raw examples into the model's inputs; called by Transform.

    Args:
      inputs: Raw features: the task's text columns (string[batch, 1]), or for
        tokenized input `input_ids`, `input_mask` and `segment_ids` (int64[batch,
        padded tokens]); label (int64[batch, 1], float32[batch, 1] of a regression, or
        int64[batch, classes] of several labels), id (int64[batch, 1], which tokenized
        input may lack), and the weight if the task has one (float32[batch, 1]).
      custom_config: `task`, `packing`, and `vocab_file` in the encoder's directory,
        whose configuration is read as well.

    Returns:
      `input_word_ids` and `input_type_ids` (or their `TaskConfig.own_name`) as
      `SparseTensor` int64[batch, tokens] without padding; the label unchanged; the id,
      -1 if it is missing; the weight, NaN if it is missing.
    """
    task = TaskConfig.model_validate(custom_config["task"])
    packing = Packing.model_validate(custom_config["packing"])
    vocab_file = custom_config["vocab_file"]
    if task.is_tokenized:
        ids, mask, segment_ids = (_as_ragged(inputs[n]) for n in TOKENIZED_FEATURES)
        packed = unpad(ids, mask, segment_ids, vocab_file, packing.max_seq_length)
    else:
        texts = [_as_dense(inputs[column], "") for column in task.text_columns]
        segments = [tf.reshape(text, [-1]) for text in texts]
        packed = text_to_inputs(segments, vocab_file, packing)
    label = _as_dense(inputs[task.label_column], 0, task.label_size)
    outputs = {task.own_name(name): ids.to_sparse() for name, ids in packed.items()}
    outputs[task.label_column] = label
    if task.id_column in inputs:
        outputs[task.id_column] = _as_dense(inputs[task.id_column], NO_ID)
    else:  # a curated schema may leave out the id of tokenized input
        shape = [tf.shape(label)[0], 1]
        outputs[task.id_column] = tf.fill(shape, tf.constant(NO_ID, tf.int64))
    if task.weight_column is not None:
        weight = inputs[task.weight_column]
        outputs[task.weight_column] = _as_dense(weight, math.nan)
    return outputs


def text_to_inputs(
    segments: list[tf.Tensor], vocab_file: str, packing: Packing
) -> dict[str, tf.RaggedTensor]:
    """Tokenizes, truncates and packs texts, as in training.

    Args:
      segments: One text, or the two of a pair, each string[batch].
      vocab_file: One token a line. Its encoder's settings are next to it.
      packing: The longest sequence, the part that is kept, and the windows.

    Returns:
      `input_word_ids` and `input_type_ids`, each int64[batch, (packed tokens)].
    """
    return _text_packer(vocab_file, packing)(segments)


def unpad(
    ids: tf.RaggedTensor,
    mask: tf.RaggedTensor,
    segment_ids: tf.RaggedTensor,
    vocab_file: str,
    max_seq_length: int,
) -> dict[str, tf.RaggedTensor]:
    """Drops the padding of examples that another tool tokenized.

    Args:
      ids: Token ids int64[batch, (padded tokens)].
      mask: 1 for a token and 0 for padding, int64[batch, (padded tokens)].
      segment_ids: Token types int64[batch, (padded tokens)].
      vocab_file: One token a line. Its encoder's settings are next to it.
      max_seq_length: Longest example in tokens.

    Returns:
      `input_word_ids` and `input_type_ids`, each int64[batch, (tokens)]. The graph
      fails with `InvalidArgumentError` on examples that the encoder cannot take.
    """
    checks = [
        *_check_masks(ids, mask, segment_ids),
        *_check_lengths(mask, max_seq_length),
        _check_range("input_ids", ids, "a vocabulary of", len(read_vocab(vocab_file))),
        _check_range(
            "segment_ids",
            segment_ids,
            encoder_files.TYPES_KEY,
            _type_vocab_size(vocab_file),
        ),
    ]
    # Transform keeps only the ops that its outputs depend on. In eager mode TensorFlow
    # returns None for a check.
    with tf.control_dependencies([check for check in checks if check is not None]):
        lengths = tf.reduce_sum(mask, axis=1)
    return {
        INPUT_WORD_IDS: _truncate(ids, lengths),
        INPUT_TYPE_IDS: _truncate(segment_ids, lengths),
    }


def tokenize(segments: list[tf.Tensor], vocab_file: str) -> list[tf.RaggedTensor]:
    """Splits texts into WordPiece ids.

    Args:
      segments: Texts, each string[batch].
      vocab_file: One token a line. Its encoder's settings are next to it.

    Returns:
      For each segment the ids, int64[batch, (tokens)].
    """
    # One call for all segments: every call embeds the vocabulary in the graph.
    ids = BertTokenizer(vocab_file).tokenize(tf.concat(segments, 0))
    batch = tf.shape(segments[0])[0]
    return [ids[i * batch : (i + 1) * batch] for i in range(len(segments))]


def pack_segments(
    segments: list[tf.RaggedTensor],
    packing: Packing,
    *,
    special_token_ids: tuple[int, int],
    type_vocab_size: int = _DEFAULT_TYPES,
) -> dict[str, tf.RaggedTensor]:
    """Packs `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncating the longest first.

    With `packing.long_text`, each window of a single text is packed so, and the windows
    follow one another. All but the last of a text have the length of the window, so the
    positions alone separate them.

    Args:
      segments: Token ids of one text, or of the two of a pair, each int64[batch,
        (tokens)].
      packing: The longest sequence, the part that is kept, and the windows.
      special_token_ids: The ids of `[CLS]` and `[SEP]`.
      type_vocab_size: The encoder's number of token types. If it is 1, both texts of a
        pair have type 0, as in RoBERTa.

    Returns:
      `input_word_ids` and `input_type_ids`, each int64[batch, (packed tokens)].
    """
    start, end = (tf.constant(token, tf.int64) for token in special_token_ids)
    segments = _trim(segments, packing.max_seq_length, packing.keep)
    if packing.long_text is not None:
        (text,) = segments
        windows = _split(text, packing.long_text)
        segments = [windows.values]
    word_ids, type_ids = tf_text.combine_segments(segments, start, end)
    if type_vocab_size == 1:  # the layer would embed type 1 as a zero vector
        type_ids = tf.zeros_like(type_ids)
    packed = {INPUT_WORD_IDS: word_ids, INPUT_TYPE_IDS: tf.cast(type_ids, tf.int64)}
    if packing.long_text is None:
        return packed
    return {
        name: windows.with_values(ids).merge_dims(1, 2) for name, ids in packed.items()
    }


def pad_inputs(
    word_ids: tf.RaggedTensor, type_ids: tf.RaggedTensor, length: int | None = None
) -> dict[str, tf.Tensor]:
    """Pads a batch to its longest row, or to a fixed length.

    Args:
      word_ids: int64[batch, (tokens)].
      type_ids: int64[batch, (tokens)].
      length: The padded length; None takes the batch's longest.

    Returns:
      The encoder's inputs, each int32[batch, length]. Padding is 0, whatever the id of
      `[PAD]` is: the mask hides it.
    """
    shape = [None, length]
    mask = tf.ones_like(word_ids)
    rows = zip(ENCODER_INPUTS, (word_ids, mask, type_ids), strict=True)
    return {name: tf.cast(ids.to_tensor(shape=shape), tf.int32) for name, ids in rows}


def special_token_ids(vocab_file: str) -> tuple[int, int]:
    """Returns the ids of `[CLS]` and `[SEP]`."""
    vocab = read_vocab(vocab_file)
    return vocab.index("[CLS]"), vocab.index("[SEP]")


def _as_dense(
    feature: tf.Tensor | tf.SparseTensor, missing: str | float, size: int = 1
) -> tf.Tensor:
    # Transform reads a column as sparse if the schema bounds it by `value_count`.
    if not isinstance(feature, tf.SparseTensor):
        return feature
    column = tf.sparse.reset_shape(feature, [feature.dense_shape[0], size])
    default = tf.constant(missing, feature.dtype)
    return tf.reshape(tf.sparse.to_dense(column, default), [-1, size])


def _as_ragged(feature: tf.Tensor | tf.SparseTensor) -> tf.RaggedTensor:
    # Transform reads a column as dense if a curated schema fixes its `shape`.
    if isinstance(feature, tf.SparseTensor):
        return tf.RaggedTensor.from_sparse(feature)
    return tf.RaggedTensor.from_tensor(feature)


def _check_masks(
    ids: tf.RaggedTensor, mask: tf.RaggedTensor, segment_ids: tf.RaggedTensor
) -> list[tf.Operation | None]:
    checks = [
        tf.debugging.assert_equal(
            other.row_lengths(),
            ids.row_lengths(),
            f"{name} must be as long as input_ids in every example",
        )
        for name, other in (("input_mask", mask), ("segment_ids", segment_ids))
    ]
    tokens_first = tf.sequence_mask(
        tf.reduce_sum(mask, axis=1), mask.bounding_shape(axis=1), tf.int64
    )
    checks.append(
        tf.debugging.assert_equal(
            mask.to_tensor(),
            tokens_first,
            "input_mask must be 1 for the tokens, which come first, and 0 after them",
        )
    )
    return checks


def _check_lengths(
    mask: tf.RaggedTensor, max_seq_length: int
) -> list[tf.Operation | None]:
    lengths = tf.reduce_sum(mask, axis=1)
    return [
        tf.debugging.assert_positive(
            lengths, "an example has no token: its input_mask is 0 everywhere"
        ),
        # Truncation would silently drop the last [SEP] of a pair.
        tf.debugging.assert_less_equal(
            lengths,
            tf.constant(max_seq_length, lengths.dtype),
            "an example has more tokens than preprocessing.max_seq_length "
            f"({max_seq_length}); raise the setting, or write the TFRecords again "
            "with fewer",
        ),
    ]


def _check_range(
    name: str, ids: tf.RaggedTensor, setting: str, size: int
) -> tf.Operation | None:
    allowed = "0" if size == 1 else f"0 to {size - 1}"
    message = (
        f"{name} must be {allowed}; encoder.source has {setting} {size}; write the "
        "TFRecords for that encoder; got"
    )
    values = ids.values
    outside = tf.boolean_mask(values, (values < 0) | (values >= size))
    return tf.debugging.Assert(tf.equal(tf.size(outside), 0), [message, outside])


def _trim(
    segments: list[tf.RaggedTensor], max_seq_length: int, keep: Keep
) -> list[tf.RaggedTensor]:
    """Truncates one or two segments to the lengths of a `RoundRobinTrimmer`."""
    # In core ops: docs/decisions/trimming.md.
    budget = max_seq_length - 1 - len(segments)  # [CLS], and a [SEP] a segment
    first, *others = segments
    lengths = first.row_lengths()
    if not others:
        return [_truncate(first, tf.minimum(lengths, budget), keep)]
    (second,) = others
    half = tf.constant((budget + 1) // 2, tf.int64)
    keep_first = tf.minimum(lengths, tf.maximum(half, budget - second.row_lengths()))
    keep_second = tf.minimum(second.row_lengths(), budget - keep_first)
    return [
        _truncate(first, keep_first, keep),
        _truncate(second, keep_second, keep),
    ]


def _truncate(
    ids: tf.RaggedTensor, count: tf.Tensor, keep: Keep = DEFAULT_KEEP
) -> tf.RaggedTensor:
    """Keeps a number of tokens of each row, int64[batch], at its head, tail or ends."""
    lengths = ids.row_lengths()
    positions = tf.ragged.range(lengths).values
    first = {"head": count, "tail": tf.zeros_like(count), "ends": (count + 1) // 2}
    kept = positions < tf.repeat(first[keep], lengths)
    if keep != "head":
        kept |= positions >= tf.repeat(lengths - count + first[keep], lengths)
    return tf.ragged.boolean_mask(ids, ids.with_values(kept))


def _split(ids: tf.RaggedTensor, settings: LongTextConfig) -> tf.RaggedTensor:
    """Returns the windows of each text, int64[batch, (windows), (tokens)]."""
    content, stride = settings.content, settings.stride
    lengths = ids.row_lengths()
    others = -((content - lengths) // stride)
    offsets = stride * tf.ragged.range(1 + tf.maximum(others, 0))
    rows = offsets.value_rowids()
    sizes = tf.minimum(tf.gather(lengths, rows) - offsets.values, content)
    starts = tf.gather(ids.row_starts(), rows) + offsets.values
    positions = tf.ragged.range(starts, starts + sizes)
    tokens = positions.with_values(tf.gather(ids.values, positions.values))
    return offsets.with_values(tokens)


@functools.lru_cache(maxsize=4)
def _text_packer(vocab_file: str, packing: Packing) -> Any:
    # A `tf.function` is traced once. Transform traces preprocessing_fn about ten times,
    # and each trace of the tokenizer's tables takes a second.
    def pack(segments: list[tf.Tensor]) -> dict[str, tf.RaggedTensor]:
        return pack_segments(
            tokenize(segments, vocab_file),
            packing,
            special_token_ids=special_token_ids(vocab_file),
            type_vocab_size=_type_vocab_size(vocab_file),
        )

    return tf.function(pack, reduce_retracing=True, autograph=False)


def read_vocab(vocab_file: str) -> list[str]:
    """Returns the tokens of a vocabulary in the order of their ids."""
    return tokenizer_files.load_tokenizer(vocab_file).words


def _type_vocab_size(vocab_file: str) -> int:
    directory = os.path.dirname(vocab_file)
    name = encoder_files.find_config(directory)
    if name is None:
        return _DEFAULT_TYPES
    config = encoder_files.read_json(os.path.join(directory, name))
    return int(config[encoder_files.TYPES_KEY])
