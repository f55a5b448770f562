"""The features that each evaluation is sliced by: length, word overlap of a pair."""

from __future__ import annotations

import tensorflow as tf

from contracts.task.definition import (
    PAIR_LENGTH,
    SENTENCE_LENGTH,
    TOKEN_LENGTH,
    WORD_OVERLAP,
)


def slice_texts(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Computes the slice features of single sentences or of pairs.

    Args:
      *texts: The sentences, or both texts of each pair, string[batch].

    Returns:
      Of sentences `sentence_length` (words, as "10-19"). Of pairs `pair_length` (words
      of both texts, as "20-39") and `word_overlap` (Jaccard index of the lower-cased
      word sets in percent, as "50-74"). Each is string[batch].
    """
    words = [_words(text) for text in texts]
    lengths = tf.add_n([text.row_lengths() for text in words])
    if len(texts) == 1:
        return {SENTENCE_LENGTH: _bucket(lengths, (10, 20, 30))}
    sets = [tf.sets.union(text.to_sparse(), text.to_sparse()) for text in words]
    shared = tf.sets.size(tf.sets.intersection(*sets))
    union = tf.sets.size(tf.sets.union(*sets))
    overlap = 100 * shared // tf.maximum(union, 1)
    return {
        PAIR_LENGTH: _bucket(lengths, (20, 40, 60)),
        WORD_OVERLAP: _bucket(overlap, (25, 50, 75)),
    }


def slice_tokens(word_ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
    """Computes the slice features of tokenized examples, whose words are unknown.

    Args:
      word_ids: int64[batch, (tokens)].

    Returns:
      `token_length` (special tokens included, as "32-63"), string[batch].
    """
    return {TOKEN_LENGTH: _bucket(word_ids.row_lengths(), (32, 64, 96))}


def _words(text: tf.Tensor) -> tf.RaggedTensor:
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    text = tf.strings.regex_replace(tf.strings.lower(text, "utf-8"), r"[^\pL\pN]", " ")
    return tf.strings.split(text)


def _bucket(values: tf.Tensor, bounds: tuple[int, ...]) -> tf.Tensor:
    low = (0, *bounds)
    names = [f"{a}-{b - 1}" for a, b in zip(low, bounds, strict=False)]
    names.append(f"{bounds[-1]}+")
    values = tf.cast(values, tf.int32)
    return tf.gather(names, tf.searchsorted(bounds, values, side="right"))
