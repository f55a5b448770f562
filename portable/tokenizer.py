"""BERT's tokenizer without TensorFlow; its tokens are those of the exported graph."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tokenizers

from portable.characters import Normalizer

SPECIAL_TOKENS = ("[CLS]", "[SEP]")  # those that packing adds

Text = str | bytes

# Longer texts are tokenized in pieces: an encoding takes 90 times their memory.
_MOST_CHARACTERS = 1 << 16


class Tokens(NamedTuple):
    """The tokens of a text.

    Attributes:
      ids: Their ids.
      starts: Where in the text each starts, in bytes.
      ends: Where each ends, in bytes.
    """

    ids: list[int]
    starts: list[int]
    ends: list[int]


class Tokenizer:
    """Normalizes text, splits it into words, and each word into WordPiece tokens.

    Hugging Face's `tokenizers` finds the tokens of a word. It normalizes text with
    other tables of Unicode than the graph, so the replacements of the folder are used.

    Args:
      file: A `tokenizer.json` of a WordPiece model.
      normalizer: What each character becomes.

    Attributes:
      special_token_ids: The ids of `[CLS]` and `[SEP]`.

    Raises:
      ValueError: The file is not a tokenizer, or finds other tokens than the graph.
    """

    def __init__(self, file: str, normalizer: Normalizer) -> None:
        try:
            tokenizer = tokenizers.Tokenizer.from_file(file)
        except Exception as error:  # `tokenizers` raises no type of its own
            raise ValueError(str(error)) from error
        _refuse_other(tokenizer)
        start, end = (_id_of(tokenizer, token) for token in SPECIAL_TOKENS)
        self.special_token_ids = start, end
        # Only white space is left to split at.
        tokenizer.normalizer = tokenizers.normalizers.Sequence([])
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        tokenizer.encode_special_tokens = True  # as text
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._normalizer = normalizer

    @property
    def size(self) -> int:
        """The number of tokens."""
        return self._tokenizer.get_vocab_size()

    @property
    def longest_word(self) -> int:
        """The number of characters above which a word is unknown."""
        return self._tokenizer.model.max_input_chars_per_word

    def token_of(self, token_id: int) -> str:
        """Returns the token of an id."""
        return self._tokenizer.id_to_token(token_id) or ""

    def tokenize(self, texts: Sequence[Text]) -> list[list[int]]:
        """Returns the ids of the tokens of each text.

        Args:
          texts: Bytes that are not UTF-8 are dropped.
        """
        normalized = [_to_text(text).translate(self._normalizer) for text in texts]
        if any(len(text) > _MOST_CHARACTERS for text in normalized):
            return [
                [token for piece in _split(text) for token in self._encode([piece])[0]]
                for text in normalized
            ]
        return self._encode(normalized)

    def tokenize_with_offsets(self, texts: Sequence[Text]) -> list[Tokens]:
        """Returns the tokens of each text, and where they are."""
        return [self._locate(_to_text(text)) for text in texts]

    def _encode(self, texts: list[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def _locate(self, text: str) -> Tokens:
        tokens = Tokens([], [], [])
        replaced: list[str] = []
        offsets: list[int] = []  # of each normalized character
        position = 0
        for character in text:
            replacement = character.translate(self._normalizer)
            if len(offsets) > _MOST_CHARACTERS and replacement.startswith(" "):
                self._add("".join(replaced), [*offsets, position], tokens)
                replaced.clear()
                offsets.clear()
            replaced.append(replacement)
            offsets += [position] * len(replacement)
            position += len(character.encode(errors="replace"))
        self._add("".join(replaced), [*offsets, position], tokens)
        return tokens

    def _add(self, text: str, offsets: list[int], tokens: Tokens) -> None:
        """Adds the tokens of a normalized text.

        Args:
          text: The text.
          offsets: Where its characters come from, and where it ends.
          tokens: They are added to these.
        """
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        tokens.ids.extend(encoding.ids)
        for start, end in encoding.offsets:
            tokens.starts.append(offsets[start])
            # A token ends where the next character starts that is not dropped.
            following = bisect.bisect_right(offsets, offsets[end - 1])
            tokens.ends.append(offsets[following])


def _refuse_other(tokenizer: tokenizers.Tokenizer) -> None:
    """Raises a ValueError for a tokenizer that is not a BERT's."""
    model = tokenizer.model
    if not isinstance(model, tokenizers.models.WordPiece):
        raise ValueError(f"its model is {type(model).__name__} instead of WordPiece")
    if (prefix := model.continuing_subword_prefix) != "##":
        raise ValueError(f"its continuing_subword_prefix is {prefix!r} instead of '##'")
    _id_of(tokenizer, model.unk_token)
    added = tokenizer.get_added_tokens_decoder().values()
    if words := [token.content for token in added if not token.special]:
        raise ValueError(f"its added token {words[0]!r} is not special")


def _id_of(tokenizer: tokenizers.Tokenizer, token: str) -> int:
    token_id = tokenizer.token_to_id(token)
    if token_id is None:
        raise ValueError(f"its vocabulary has no {token!r}")
    return token_id


def _split(text: str) -> Iterator[str]:
    """Splits a normalized text between words."""
    start = 0
    while start < len(text):
        end = text.find(" ", start + _MOST_CHARACTERS)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end


def _to_text(text: Text) -> str:
    return text if isinstance(text, str) else text.decode(errors="replace")
