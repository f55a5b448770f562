"""BERT's tokenizer as a graph: text to WordPiece tokens.

The normalizers that tensorflow-text builds fold case, apply NFKC and replace control
characters by spaces. BERT drops control characters, and it lowers case and applies NFD
only if its tokenizer's settings say so.
"""

from __future__ import annotations

import collections
import functools

import flatbuffers
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from contracts.tokenization import TokenizerSettings, list_replacements
from modules.data import tokenizer_files

_REPLACED = 0x40000000  # flag of a replacement in the trie
_VALUE = 0x80000000  # flag of a unit that is a value
_HAS_VALUE = 0x100  # flag of a unit that points to a value
_UNKNOWN = "[UNK]"
_UTF8_BYTES = 4  # of the longest character


@functools.lru_cache(maxsize=4)
def build_normalizer(settings: TokenizerSettings) -> np.ndarray:
    """Builds a model that normalizes text and puts spaces around one-character words.

    It is a FlatBuffer of tensorflow-text's `fast_bert_normalizer_model.fbs`: the
    replacements in one string, and a trie from the UTF-8 bytes of a character to its
    replacement's offset and length.

    Returns:
      uint8[bytes], the `model_buffer` of a `FastBertNormalizer`.
    """
    text = bytearray()
    offsets: dict[bytes, int] = {}
    values = {}
    for character, replacement in list_replacements(settings):
        content = replacement.encode()
        if content not in offsets:
            offsets[content] = len(text)
            text += content
        # Bits 0 to 5 are the length, bits 6 to 29 the offset.
        values[ord(character)] = _REPLACED | offsets[content] << 6 | len(content)
    of_nul = values.pop(0, 0)
    builder = flatbuffers.Builder()
    trie_array = builder.CreateNumpyVector(_build_trie(values))
    normalized_string_pool = builder.CreateByteVector(bytes(text))
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, trie_array, 0)
    builder.PrependInt32Slot(2, of_nul, 0)  # data_for_codepoint_zero
    builder.PrependUOffsetTRelativeSlot(3, normalized_string_pool, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def _build_trie(values: dict[int, int]) -> np.ndarray:
    """Builds a trie in the format of Darts-clone.

    `darts_clone_trie_wrapper.h` of tensorflow-text reads it. A unit has in bits 0 to 7
    the byte that leads to it. From bit 10 on it has the index of its value or its
    children, XORed with its own index. The child of a byte is at the index of the
    children, XORed with that byte.

    Args:
      values: The value of each code point.

    Returns:
      The units, uint32[units].
    """
    children_of_root = 0x100
    units = [children_of_root << 10, *[0] * (2 * children_of_root - 1)]
    links: dict[int, int] = {}
    to_values: dict[int, int] = {}
    for code, value in values.items():
        if value not in to_values:
            to_values[value] = len(units) << 10 | _HAS_VALUE
            units.append(value | _VALUE)
        links[code] = to_values[value]
    # UTF-8: a code point below 0x80 is a byte. The last 6 bits of others are a byte
    # from 0x80 on; the rest, if it is below 0x20, is a byte with 0xC0; and so on.
    to_pages: dict[tuple[tuple[int, int], ...], int] = {}
    for prefix, limit in ((0x00, 0x80), (0xC0, 0x20), (0xE0, 0x10), (0xF0, 0x08)):
        pages = collections.defaultdict(list)
        for code, link in links.items():
            if code < limit:
                byte = prefix | code
                index = children_of_root ^ byte
                units[index] = byte | (index << 10) ^ link
            else:
                pages[code >> 6].append((0x80 | code & 0x3F, link))
        links = {}
        for code, page in pages.items():
            key = tuple(page)
            if key not in to_pages:  # else equal pages share their units
                units.extend([0] * (-len(units) % 0x40))
                children = len(units) ^ 0x80  # bytes from 0x80 on
                units.extend([0] * 0x40)
                for byte, link in page:
                    index = children ^ byte
                    units[index] = byte | (index << 10) ^ link
                to_pages[key] = children << 10
            links[code] = to_pages[key]
    return np.array(units, np.uint32)


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
        settings = tokenizer_files.load_tokenizer(vocab_file).settings
        self._longest = settings.max_input_chars_per_word
        self._normalizer = tf_text.FastBertNormalizer(
            model_buffer=tf.constant(build_normalizer(settings))
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
            vocab=tokenizer_files.load_tokenizer(vocab_file).words,
            max_bytes_per_word=min(_UTF8_BYTES * longest, np.iinfo(np.int32).max),
            no_pretokenization=True,
        )
        return tokenizer._model.numpy()
