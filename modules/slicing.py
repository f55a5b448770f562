"""What the evaluation is sliced by: length of the pair and word overlap."""

from __future__ import annotations

import tensorflow as tf

PAIR_LENGTH = "pair_length"
WORD_OVERLAP = "word_overlap"
_LENGTHS = (20, 40, 60)  # words of both texts
_OVERLAPS = (25, 50, 75)  # percent


def slice_features(first: tf.Tensor, second: tf.Tensor) -> dict[str, tf.Tensor]:
    """Sorts pairs into the slices that quality is reported on.

    Args:
      first: Texts, string[batch].
      second: Texts, string[batch].

    Returns:
      `pair_length` (words of both texts, as "20-39") and `word_overlap` (Jaccard
      index of the lower-cased word sets in percent, as "50-74"), string[batch].
    """
    words = [_words(text) for text in (first, second)]
    lengths = tf.add_n([text.row_lengths() for text in words])
    sets = [tf.sets.union(text.to_sparse(), text.to_sparse()) for text in words]
    shared = tf.sets.size(tf.sets.intersection(*sets))
    union = tf.sets.size(tf.sets.union(*sets))
    overlap = 100 * shared // tf.maximum(union, 1)
    return {
        PAIR_LENGTH: _bucket(tf.cast(lengths, tf.int32), _LENGTHS),
        WORD_OVERLAP: _bucket(overlap, _OVERLAPS),
    }


def _words(text: tf.Tensor) -> tf.RaggedTensor:
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    text = tf.strings.regex_replace(tf.strings.lower(text, "utf-8"), r"[^\pL\pN]", " ")
    return tf.strings.split(text)


def _bucket(values: tf.Tensor, bounds: tuple[int, ...]) -> tf.Tensor:
    low = (0, *bounds)
    names = [f"{a}-{b - 1}" for a, b in zip(low, bounds, strict=False)]
    names.append(f"{bounds[-1]}+")
    return tf.gather(names, tf.searchsorted(bounds, values, side="right"))
