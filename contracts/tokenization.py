"""The settings of BERT's tokenizer, and what they make of each character."""

from __future__ import annotations

import dataclasses
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

LOWER_CASE_KEY = "do_lower_case"

# As in Hugging Face's `tokenizers`. BERT's own code begins the sixth range at 0x2B820.
_CHINESE = (
    *(range(0x3400, 0x4DC0), range(0x4E00, 0xA000), range(0xF900, 0xFB00)),
    *(range(0x20000, 0x2A6E0), range(0x2A700, 0x2B820), range(0x2B920, 0x2CEB0)),
    range(0x2F800, 0x2FA20),
)
_CHINESE_OF_BERT = range(0x2B820, 0x2B920)
# Without the surrogates, and without the planes that have no characters.
_CODE_POINTS = (range(0xD800), range(0xE000, 0x40000), range(0xE0000, 0x110000))
_PUNCTUATION = frozenset(string.punctuation)  # BERT's also has ASCII's symbols


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
    """How a BERT tokenizer splits text into words, under Hugging Face's names.

    Attributes:
      do_lower_case: Whether characters become lower case.
      strip_accents: Whether characters are decomposed (NFD) and lose their accents.
      tokenize_chinese_chars: Whether each CJK character is a word.
      max_input_chars_per_word: A word with more characters is unknown.
    """

    do_lower_case: bool
    strip_accents: bool
    tokenize_chinese_chars: bool = True
    max_input_chars_per_word: int = 100

    @classmethod
    def of(cls, settings: dict[str, Any], words: Iterable[str]) -> TokenizerSettings:
        """Completes the settings of an encoder.

        Args:
          settings: Those that the encoder has, among other keys. None is no value.
          words: The vocabulary. Without `do_lower_case`, a capital letter in any word
            means that case is kept. Markers such as `[CLS]`, and `<S>` of Google's
            Chinese BERT, do not count.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        values = {k: settings[k] for k in names if settings.get(k) is not None}
        if LOWER_CASE_KEY not in values:
            values[LOWER_CASE_KEY] = not any(
                word != word.lower() and not re.fullmatch(r"\[.*\]|<.*>", word)
                for word in words
            )
        return cls(**{"strip_accents": values[LOWER_CASE_KEY], **values})


def list_replacements(settings: TokenizerSettings) -> Iterator[tuple[str, str]]:
    """Yields each character that does not stay as it is, and its replacement.

    The tables of Unicode are those of this Python.
    """
    category = unicodedata.category
    for code in (code for codes in _CODE_POINTS for code in codes):
        character = chr(code)
        kind = category(character)
        if character in "\t\n\r" or kind in ("Zs", "Zl", "Zp"):
            yield character, " "
            continue
        if kind in ("Cc", "Cf", "Co") or character == "\ufffd":
            yield character, ""
            continue
        normalized = character
        if settings.strip_accents:
            decomposed = unicodedata.normalize("NFD", character)
            if kind == "Mn" or decomposed != character:
                normalized = "".join(c for c in decomposed if category(c) != "Mn")
        if settings.do_lower_case and normalized.lower() != normalized:
            # Character by character, so that a final sigma has no other form.
            normalized = "".join(c.lower() for c in normalized)
        if not normalized.isalnum():
            normalized = "".join(
                f" {c} " if c in _PUNCTUATION or category(c).startswith("P") else c
                for c in normalized
            )
        if (
            settings.tokenize_chinese_chars
            and code >= _CHINESE[0].start
            and any(code in codes for codes in _CHINESE)
        ):
            normalized = f" {normalized} "
        if normalized != character:
            yield character, normalized


def list_unstable() -> Iterator[str]:
    """Yields characters that other versions of Unicode or BERT treat differently.

    They are unassigned, newer punctuation, or Chinese only in BERT's own code.
    """
    category, first = unicodedata.category, unicodedata.ucd_3_2_0.category
    yield from map(chr, _CHINESE_OF_BERT)
    for character in map(chr, range(0x20000)):  # others have no punctuation
        kind = category(character)
        if kind == "Cn" or (kind[0] == "P" and first(character) == "Cn"):
            yield character
