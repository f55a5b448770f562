"""What each character becomes before text is split into words, as a file."""

from __future__ import annotations

import bisect
import sys
import unicodedata
from typing import Annotated, Literal, NamedTuple, get_args

import pydantic

from contracts.records import RecordFile
from contracts.tokenization import TokenizerSettings, list_replacements

# How the characters of a range are replaced: `{}` is the character itself.
_Form = Literal["", " ", " {} "]
_FORMS = get_args(_Form)
_CodePoint = Annotated[int, pydantic.Field(ge=0, le=sys.maxunicode)]
_Character = Annotated[str, pydantic.Field(min_length=1, max_length=1)]
# With a limit, pydantic also refuses half of a character.
_Replacement = Annotated[str, pydantic.Field(max_length=32)]


class Range(NamedTuple):
    """Characters that are replaced in the same form.

    Attributes:
      first: The first code point.
      last: The last code point.
      form: The replacement; `{}` is the character itself.
    """

    first: _CodePoint
    last: _CodePoint
    form: _Form


class CharacterTable(RecordFile, frozen=True):
    """The replacements of all characters, in the file of a portable folder.

    The runtime's Python may have other tables of Unicode than the Python that built
    the model's tokenizer, so the replacements are written.

    Attributes:
      unicode: The version of Unicode.
      ranges: Characters that are dropped, become a space, or become a word, in order.
      replacements: The replacement of each other character that does not stay.
    """

    FILE = "characters.json"

    unicode: str
    ranges: list[Range]
    replacements: dict[_Character, _Replacement]

    @pydantic.field_validator("ranges")
    @classmethod
    def _check_order(cls, ranges: list[Range]) -> list[Range]:
        codes = [code for found in ranges for code in (found.first, found.last)]
        if codes != sorted(codes):
            raise ValueError("they are not in order")
        return ranges

    @classmethod
    def of(cls, settings: TokenizerSettings) -> CharacterTable:
        """Returns the table of a tokenizer."""
        ranges: list[Range] = []
        replacements = {}
        for character, replacement in list_replacements(settings):
            code = ord(character)
            forms = [form for form in _FORMS if form.format(character) == replacement]
            if not forms:
                replacements[character] = replacement
            elif ranges and ranges[-1][1:] == (code - 1, *forms):
                ranges[-1] = ranges[-1]._replace(last=code)
            else:
                ranges.append(Range(code, code, *forms))
        return cls(
            unicode=unicodedata.unidata_version,
            ranges=ranges,
            replacements=replacements,
        )


class Normalizer(dict[int, str]):
    """The replacement of each code point, for `str.translate`.

    Args:
      table: The replacements.
    """

    def __init__(self, table: CharacterTable) -> None:
        super().__init__({ord(c): text for c, text in table.replacements.items()})
        # Half of a character, which JSON can escape, is dropped.
        surrogates = Range(0xD800, 0xDFFF, "")
        self._ranges = sorted([*table.ranges, surrogates])
        self._starts = [found.first for found in self._ranges]

    def __missing__(self, code: int) -> str:
        character = chr(code)
        index = bisect.bisect_right(self._starts, code) - 1
        if index >= 0 and code <= self._ranges[index].last:
            character = self._ranges[index].form.format(character)
        self[code] = character
        return character
