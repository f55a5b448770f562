"""BERT's tokenizer as a graph: text to WordPiece tokens.

The normalizers that tensorflow-text builds fold case, apply NFKC and replace control
characters by spaces. BERT drops control characters, and it lowers case and applies NFD
only if its tokenizer's settings say so.
"""

from __future__ import annotations

import functools

import flatbuffers
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from contracts.tokenization import (
    TokenizerSettings,
    list_replacements,
    list_unstable,
)
from modules.data import tokenizer_files

_REPLACED = 0x40000000  # flag of a replacement in the trie
_DROPPED = _REPLACED  # by nothing
_VALUE = 0x80000000  # flag of a unit that is a value
_HAS_VALUE = 0x100  # flag of a unit that points to a value
# A character of words that are unknown. BERT drops it, so no text has it.
_UNKNOWN = "\x01"
_UTF8_BYTES = 4  # of the longest character
_LONGEST_REPEAT = 1000  # of a regular expression


@functools.lru_cache(maxsize=4)
def build_normalizer(settings: TokenizerSettings, is_whole: bool) -> np.ndarray:
    """Builds a model that normalizes text and puts spaces around one-character words.

    It is a FlatBuffer of tensorflow-text's `fast_bert_normalizer_model.fbs`: the
    replacements in one string, and a trie from the UTF-8 bytes of a character to its
    replacement's offset and length. Bytes that are not UTF-8 are dropped.

    Args:
      settings: What becomes of each character.
      is_whole: Whether the WordPiece op gets whole texts. Then characters at which not
        every version of it would split as BERT does become `_UNKNOWN`.

    Returns:
      uint8[bytes], the `model_buffer` of a `FastBertNormalizer`.
    """
    text = bytearray()
    offsets: dict[bytes, int] = {}
    values = {}
    replacements = dict(list_replacements(settings))
    if is_whole:
        unstable = {ord(character): _UNKNOWN for character in list_unstable()}
        replacements = {
            character: replacement.translate(unstable)
            for character, replacement in (
                {chr(code): chr(code) for code in unstable} | replacements
            ).items()
        }
    for character, replacement in replacements.items():
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
    children, XORed with that byte; the value of a unit with children is at their index.

    The normalizer looks up bytes that are not UTF-8 one by one, and the start of a
    character that lacks its end as a whole. Each has a value, which drops it.

    Args:
      values: The value of each code point.

    Returns:
      The units, uint32[units].
    """
    children_of_root = 0x100
    units = [children_of_root << 10, *[0] * (2 * children_of_root - 1)]
    # In a table of 256 units, two units have 64 children each, from byte 0x80 on.
    parents: list[int] = []
    others: list[int] = []

    def take(free: list[int]) -> int:
        if not free:
            start = len(units)
            units.extend([0] * 0x100)
            parents.extend((start, start + 0x40))
            others.extend(i for i in range(start, start + 0x80) if i % 0x40)
        return free.pop()

    to_values: dict[int, int] = {}
    for value in (_DROPPED, *values.values()):
        if value not in to_values:
            index = take(others)
            units[index] = value | _VALUE
            to_values[value] = index << 10 | _HAS_VALUE
    links = {code: to_values[value] for code, value in values.items()}
    for byte in range(0x80, 0x100):
        index = children_of_root ^ byte
        units[index] = byte | (index << 10) ^ to_values[_DROPPED]
    # UTF-8: a code point below 0x80 is a byte. The last 6 bits of others are a byte
    # from 0x80 on; the rest, if it is below 0x20, is a byte with 0xC0; and so on.
    last = 0x10FFFF
    to_pages: dict[tuple[tuple[int, int], ...], int] = {}
    for prefix, limit in ((0x00, 0x80), (0xC0, 0x20), (0xE0, 0x10), (0xF0, 0x08)):
        pages: dict[int, list[tuple[int, int]]] = {
            code >> 6: [] for code in range(limit & -0x40, last + 1, 0x40)
        }
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
                children = take(parents)
                units[children] = _DROPPED | _VALUE
                for byte, link in page:
                    index = children ^ byte
                    units[index] = byte | (index << 10) ^ link
                to_pages[key] = children << 10 | _HAS_VALUE
            links[code] = to_pages[key]
        last >>= 6
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
        self._is_whole, wordpiece = _wordpiece_model(vocab_file, settings)
        self._normalizer = tf_text.FastBertNormalizer(
            model_buffer=tf.constant(build_normalizer(settings, self._is_whole))
        )
        self._wordpiece = tf_text.FastWordpieceTokenizer(
            model_buffer=tf.constant(wordpiece), token_out_type=token_type
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits texts into tokens.

        Args:
          texts: string[batch]. Bytes that are not UTF-8 are dropped: a bad byte in
            served text must not fail a whole batch.

        Returns:
          The tokens, [batch, (tokens)] of the token type.
        """
        normalized = self._normalizer.normalize(texts)
        if self._is_whole:
            longer = f"[^ ]{{{self._longest + 1},}}"
            return self._wordpiece.tokenize(
                tf.strings.regex_replace(normalized, longer, _UNKNOWN)
            )
        words = self._replace_longest(tf.strings.split(normalized))
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
        normalized, offsets = self._normalizer.normalize_with_offsets(texts)
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
        # The op would split the token's name at its brackets.
        unknown = _UNKNOWN if self._is_whole else "[UNK]"
        return words.with_flat_values(
            tf.where(characters > self._longest, unknown, words.flat_values)
        )


@functools.lru_cache(maxsize=4)
def _wordpiece_model(
    vocab_file: str, settings: TokenizerSettings
) -> tuple[bool, np.ndarray]:
    """Returns whether the op splits whole texts into words as BERT does, and its model.

    The op then takes half the time. It always splits at punctuation and at Chinese
    characters.
    """
    words = tokenizer_files.load_tokenizer(vocab_file).words
    longest = settings.max_input_chars_per_word
    is_whole = (
        settings.tokenize_chinese_chars
        and longest < _LONGEST_REPEAT
        # The op finds a token with a space in two words.
        and {_UNKNOWN, " ", *list_unstable()}.isdisjoint("".join(words))
    )
    # Building the trie of 30,522 words takes 1.5 s, and Transform traces
    # preprocessing_fn about ten times. No public API returns the built model.
    with tf.init_scope():
        tokenizer = tf_text.FastWordpieceTokenizer(
            vocab=words,
            max_bytes_per_word=min(_UTF8_BYTES * longest, np.iinfo(np.int32).max),
            no_pretokenization=not is_whole,
        )
        return is_whole, tokenizer._model.numpy()
