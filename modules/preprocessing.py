"""From raw pairs to the model's inputs, in training and in serving alike.

Transform runs `preprocessing_fn` over all examples and keeps its graph, which the
exported model then runs on raw text: one owner, no skew.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipeline.task import TaskConfig

INPUT_WORD_IDS = "input_word_ids"
INPUT_MASK = "input_mask"
INPUT_TYPE_IDS = "input_type_ids"
SPECIAL_TOKENS_OF_A_PAIR = 3  # [CLS] a [SEP] b [SEP]


def preprocessing_fn(
    inputs: dict[str, tf.Tensor], custom_config: dict[str, Any]
) -> dict[str, tf.Tensor]:
    """Tokenizes, truncates and packs pairs; called by Transform.

    Args:
      inputs: Raw features, each `[batch, 1]`: the task's text columns (string), label
        and id (int64).
      custom_config: `task`, `max_seq_length` and `vocab_file`.

    Returns:
      `input_word_ids` and `input_type_ids` as `SparseTensor` int64[batch, tokens]
      without padding, the label and id columns as they came.
    """
    task = TaskConfig.model_validate(custom_config["task"])
    inputs = {name: _as_dense(feature) for name, feature in inputs.items()}
    segments = [tf.reshape(inputs[column], [-1]) for column in task.text_columns]
    packed = pack_pairs(
        *tokenize(segments, custom_config["vocab_file"]),
        max_seq_length=custom_config["max_seq_length"],
        special_token_ids=special_token_ids(custom_config["vocab_file"]),
    )
    outputs = {name: ids.to_sparse() for name, ids in packed.items()}
    for column in (task.label_column, task.id_column):
        outputs[column] = inputs[column]
    return outputs


def tokenize(segments: list[tf.Tensor], vocab_file: str) -> list[tf.RaggedTensor]:
    """Splits texts into WordPiece ids.

    Bytes that are not UTF-8 become U+FFFD, which BERT's basic tokenizer drops:
    served text comes from anywhere, and a bad byte must not fail a whole batch.

    Args:
      segments: Texts, each string[batch].
      vocab_file: One token a line.

    Returns:
      For each segment the ids, int64[batch, (tokens)].
    """
    # One call for all segments: every call embeds the vocabulary in the graph.
    texts = tf.strings.unicode_transcode(tf.concat(segments, 0), "UTF-8", "UTF-8")
    ids = _tokenizer(vocab_file).tokenize(texts)
    batch = tf.shape(segments[0])[0]
    return [ids[i * batch : (i + 1) * batch] for i in range(len(segments))]


def pack_pairs(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor,
    *,
    max_seq_length: int,
    special_token_ids: tuple[int, int],
) -> dict[str, tf.RaggedTensor]:
    """Packs pairs as `[CLS] a [SEP] b [SEP]`, truncating the longest first.

    The rule gives what dropping one token at a time from the longer segment gives
    (`RoundRobinTrimmer`), in core ops: older TF Serving images lack that op.

    Args:
      first: Token ids int64[batch, (tokens)].
      second: Token ids int64[batch, (tokens)].
      max_seq_length: Longest packed pair in tokens.
      special_token_ids: The ids of `[CLS]` and `[SEP]`.

    Returns:
      `input_word_ids` and `input_type_ids`, each int64[batch, (packed tokens)].
    """
    budget = max_seq_length - SPECIAL_TOKENS_OF_A_PAIR
    half = tf.constant((budget + 1) // 2, tf.int64)
    keep_first = tf.minimum(
        first.row_lengths(), tf.maximum(half, budget - second.row_lengths())
    )
    keep_second = tf.minimum(second.row_lengths(), budget - keep_first)
    start, end = special_token_ids
    word_ids, type_ids = tf_text.combine_segments(
        [_truncate(first, keep_first), _truncate(second, keep_second)],
        start_of_sequence_id=tf.constant(start, tf.int64),
        end_of_segment_id=tf.constant(end, tf.int64),
    )
    return {INPUT_WORD_IDS: word_ids, INPUT_TYPE_IDS: tf.cast(type_ids, tf.int64)}


def pad_inputs(
    word_ids: tf.RaggedTensor, type_ids: tf.RaggedTensor, length: int | None = None
) -> dict[str, tf.Tensor]:
    """Pads a batch to its longest row, or to a fixed length.

    Args:
      word_ids: int64[batch, (tokens)].
      type_ids: int64[batch, (tokens)].
      length: The padded length; None takes the batch's longest.

    Returns:
      The encoder's inputs, each int32[batch, length]. Padding is 0 (`[PAD]`).
    """
    shape = [None, length]
    mask = tf.ones_like(word_ids)
    return {
        name: tf.cast(ids.to_tensor(shape=shape), tf.int32)
        for name, ids in (
            (INPUT_WORD_IDS, word_ids),
            (INPUT_MASK, mask),
            (INPUT_TYPE_IDS, type_ids),
        )
    }


def is_cased(vocab_file: str) -> bool:
    """Tells whether a vocabulary keeps capital letters, from its own words."""
    words = (word for word in _read_vocab(vocab_file) if not word.startswith("["))
    return any(word != word.lower() for word in words)


def special_token_ids(vocab_file: str) -> tuple[int, int]:
    """Returns the ids of `[CLS]` and `[SEP]`.

    Raises:
      ValueError: The vocabulary lacks one of BERT's special tokens, or has its
        padding token elsewhere than at 0.
    """
    vocab = _read_vocab(vocab_file)
    absent = [t for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]") if t not in vocab]
    if absent:
        raise ValueError(f"{vocab_file} has no {', '.join(absent)}: not a BERT's")
    if vocab.index("[PAD]") != 0:
        raise ValueError(f"{vocab_file} has [PAD] at {vocab.index('[PAD]')}, not at 0")
    return vocab.index("[CLS]"), vocab.index("[SEP]")


def _as_dense(feature: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
    # What a schema bounds by `value_count` instead of `shape` arrives sparse.
    if not isinstance(feature, tf.SparseTensor):
        return feature
    rows = feature.dense_shape[0]
    return tf.sparse.to_dense(tf.sparse.reset_shape(feature, [rows, 1]))


def _truncate(ids: tf.RaggedTensor, keep: tf.Tensor) -> tf.RaggedTensor:
    positions = tf.ragged.range(ids.row_lengths())
    kept = positions.values < tf.repeat(keep, ids.row_lengths())
    return tf.ragged.boolean_mask(ids, ids.with_values(kept))


@functools.lru_cache(maxsize=4)
def _read_vocab(vocab_file: str) -> list[str]:
    with tf.io.gfile.GFile(vocab_file) as lines:
        return [line.rstrip("\n") for line in lines]


def _tokenizer(vocab_file: str) -> tf_text.FastBertTokenizer:
    return tf_text.FastBertTokenizer(
        fast_wordpiece_model_buffer=tf.constant(_wordpiece_model(vocab_file)),
        token_out_type=tf.int64,
        lower_case_nfd_strip_accents=not is_cased(vocab_file),
    )


@functools.lru_cache(maxsize=4)
def _wordpiece_model(vocab_file: str) -> np.ndarray:
    # Building the trie of 30,522 words takes 1.5 s, and Transform traces
    # preprocessing_fn a dozen times. There is no public way to the built model.
    with tf.init_scope():
        tokenizer = tf_text.FastWordpieceTokenizer(vocab=_read_vocab(vocab_file))
        return tokenizer._model.numpy()


def text_to_inputs(
    segments: list[tf.Tensor], vocab_file: str, max_seq_length: int
) -> dict[str, tf.RaggedTensor]:
    """Tokenizes and packs single sentences or pairs.

    Args:
      segments: One or two texts, each string[batch].
      vocab_file: One token a line.
      max_seq_length: Longest packed sequence in tokens.

    Returns:
      `input_word_ids` and `input_type_ids`, each int64[batch, (packed tokens)].
    """
    ids = tokenize(segments, vocab_file)
    special_tokens = special_token_ids(vocab_file)
    if len(ids) > 1:
        return pack_pairs(
            *ids, max_seq_length=max_seq_length, special_token_ids=special_tokens
        )
    (single,) = ids
    budget = tf.constant(max_seq_length - 2, tf.int64)
    start, end = special_tokens
    word_ids, type_ids = tf_text.combine_segments(
        [_truncate(single, tf.minimum(single.row_lengths(), budget))],
        start_of_sequence_id=tf.constant(start, tf.int64),
        end_of_segment_id=tf.constant(end, tf.int64),
    )
    return {INPUT_WORD_IDS: word_ids, INPUT_TYPE_IDS: tf.cast(type_ids, tf.int64)}
