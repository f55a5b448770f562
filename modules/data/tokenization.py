"""BERT's tokenizer as a graph: text to WordPiece tokens."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from modules.data import normalization, tokenizer_files

_UNKNOWN = "[UNK]"
_UTF8_BYTES = 4  # of the longest character


class BertTokenizer:
    """Normalizes text, splits it into words, and each word into WordPiece tokens.

    The tokens are those of Hugging Face's `tokenizers`, but for the differences in
    docs/tokenization.md. tensorflow-text's `FastBertTokenizer` has one setting instead
    of five, splits at punctuation of its own, and counts a word's bytes, not its
    characters.

    Args:
      vocab_file: One token a line. Its encoder's settings are next to it.
      token_type: The type of the tokens: `tf.int64` or `tf.string`.
    """

    def __init__(self, vocab_file: str, token_type: tf.DType = tf.int64) -> None:
        settings = tokenizer_files.read_settings(vocab_file)
        self._longest = settings.max_input_chars_per_word
        self._normalizer = tf_text.FastBertNormalizer(
            model_buffer=tf.constant(normalization.build_model(settings))
        )
        self._wordpiece = tf_text.FastWordpieceTokenizer(
            model_buffer=tf.constant(_wordpiece_model(vocab_file, self._longest)),
            token_out_type=token_type,
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits texts into tokens.

        Args:
          texts: string[batch]. Bytes that are not UTF-8 are dropped: a bad byte in
            served text must not fail a whole batch.

        Returns:
          The tokens, [batch, (tokens)] of the token type.
        """
        words = tf.strings.split(self._normalizer.normalize(_to_valid(texts)))
        words = self._replace_longest(words)
        return self._wordpiece.tokenize(words).merge_dims(1, 2)

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Splits texts into tokens, and locates these.

        Args:
          texts: string[batch].

        Returns:
          The tokens as `tokenize` returns them, and where in its text each starts and
          ends, in bytes, int64[batch, (tokens)].
        """
        normalized, offsets = self._normalizer.normalize_with_offsets(_to_valid(texts))
        words = tf.strings.split(normalized, " ")
        # A text has one offset more than bytes, and one word more than spaces.
        sizes = tf.cast(tf.strings.length(words.flat_values), tf.int64)
        starts = tf.cumsum(sizes + 1, exclusive=True)
        is_word = words.with_flat_values(sizes > 0)
        sizes, starts = (
            tf.ragged.boolean_mask(words.with_flat_values(values), is_word).flat_values
            for values in (sizes, starts)
        )
        words = tf.ragged.boolean_mask(words, is_word)
        replaced = self._replace_longest(words)
        tokens, token_starts, token_ends = self._wordpiece.tokenize_with_offsets(
            replaced
        )
        word_of_token = tokens.values.value_rowids()
        is_replaced = tf.not_equal(replaced.flat_values, words.flat_values)
        last = (
            tf.where(
                tf.gather(is_replaced, word_of_token),
                tf.gather(sizes, word_of_token),
                token_ends.flat_values,
            )
            + tf.gather(starts, word_of_token)
            - 1
        )
        first = token_starts.flat_values + tf.gather(starts, word_of_token)
        # All bytes of a character have its offset. It ends where the next one starts.
        rows = offsets.value_rowids() * 2**40
        keys = offsets.flat_values + rows
        next_character = tf.searchsorted(keys, tf.gather(keys, last), side="right")
        tokens = tokens.merge_dims(1, 2)
        return (
            tokens,
            tokens.with_flat_values(tf.gather(offsets.flat_values, first)),
            tokens.with_flat_values(tf.gather(offsets.flat_values, next_character)),
        )

    def _replace_longest(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Replaces words that have too many characters by the unknown token."""
        characters = tf.strings.length(words.flat_values, "UTF8_CHAR")
        return words.with_flat_values(
            tf.where(characters > self._longest, _UNKNOWN, words.flat_values)
        )


def _to_valid(texts: tf.Tensor) -> tf.Tensor:
    """Replaces bytes that are not UTF-8 by U+FFFD, which BERT drops."""
    # ASCII is valid. Transcoding it takes as long as tokenizing it.
    is_ascii = tf.strings.regex_full_match(texts, "[[:ascii:]]*")
    others = tf.where(is_ascii, "", texts)
    transcoded = tf.strings.unicode_transcode(others, "UTF-8", "UTF-8")
    return tf.where(is_ascii, texts, transcoded)


@functools.lru_cache(maxsize=4)
def _wordpiece_model(vocab_file: str, longest: int) -> np.ndarray:
    # Building the trie of 30,522 words takes 1.5 s, and Transform traces
    # preprocessing_fn about ten times. No public API returns the built model.
    with tf.init_scope():
        tokenizer = tf_text.FastWordpieceTokenizer(
            vocab=tokenizer_files.read_words(vocab_file),
            max_bytes_per_word=min(_UTF8_BYTES * longest, np.iinfo(np.int32).max),
            no_pretokenization=True,
        )
        return tokenizer._model.numpy()
