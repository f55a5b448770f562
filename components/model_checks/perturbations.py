"""Changes of texts that a prediction should survive, or follow in one direction."""

from __future__ import annotations

import functools
import itertools
import json
import random
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pydantic import Field, PositiveInt, field_validator, model_validator

from components.model_checks.check import Texts
from components.model_checks.word_swaps import (
    WordList,
    WordSwaps,
    check_list,
    read_english_lists,
)
from contracts.errors import SettingError
from contracts.section import Settings
from contracts.settings.checks import CheckSettings
from contracts.task.definition import TaskConfig

_SHOWN_CHARACTERS = 60


class Perturbation(Settings):
    """A change of texts; exactly one of the changes is set.

    Attributes:
      replace: Words or phrases and what replaces them, such as `{Mr.: Mrs.}`. Case
        matters, and a part of a word is not replaced.
      typos: The number of typos in each text: two neighbouring letters are swapped. A
        text always gets the same ones.
      upper_case: Whether all letters become upper case.
      lower_case: Whether all letters become lower case.
      append: The end that each text gets, with its blank, such as `" Thanks."`.
      prepend: The start that each text gets.
      swap_words: Words for groups that are swapped: a list, as in
        `checks.swapped_words.lists`, such as `[[he, she], [man, woman]]`, or the name
        of an English one. A row has a version for each other group.
      column: The text column of a pair. Only `swap_words` can do without it, and then
        swaps words in both.
    """

    replace: dict[str, str] | None = Field(default=None, min_length=1)
    typos: PositiveInt | None = None
    upper_case: bool = False
    lower_case: bool = False
    append: str = ""
    prepend: str = ""
    swap_words: WordList | str | None = None
    column: str | None = None

    @property
    def description(self) -> str:
        """The change as recipes write it, such as `typos: 1`."""
        parts = self.model_dump(include=_CHANGES | {"column"}, exclude_defaults=True)
        text = ", ".join(
            f"{name}: {json.dumps(value, ensure_ascii=False)}"
            for name, value in parts.items()
        )
        is_long = len(text) > _SHOWN_CHARACTERS
        return f"{text[:_SHOWN_CHARACTERS]}…" if is_long else text

    def versions(self, texts: Texts, columns: Sequence[str]) -> list[Texts]:
        """Returns the versions of a row that differ from it.

        Args:
          texts: The texts of the row.
          columns: The text columns.
        """
        chosen = [
            index for index, name in enumerate(columns) if self.column in (None, name)
        ]
        versions = []
        for changed in self._change([texts[index] for index in chosen]):
            by_index = dict(zip(chosen, changed, strict=True))
            version = tuple(by_index.get(i, text) for i, text in enumerate(texts))
            if version != texts:
                versions.append(version)
        return versions

    def _change(self, texts: list[str]) -> list[list[str]]:
        if self.swap_words is not None:
            return self._swaps.versions(texts)
        return [[self._change_text(text) for text in texts]]

    def _change_text(self, text: str) -> str:
        if self.replace is not None:
            replaced = self.replace
            return self._pattern.sub(lambda match: replaced[match[0]], text)
        if self.typos is not None:
            return _swap_letters(text, self.typos)
        if self.upper_case:
            return text.upper()
        if self.lower_case:
            return text.lower()
        return f"{self.prepend}{text}{self.append}"

    @functools.cached_property
    def _swaps(self) -> WordSwaps:
        words = self.swap_words or []
        return WordSwaps(
            read_english_lists()[words] if isinstance(words, str) else words
        )

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        phrases = sorted(self.replace or (), key=len, reverse=True)
        return re.compile("|".join(map(_match_words, phrases)))

    @field_validator("swap_words")
    @classmethod
    def _check_words(cls, words: Any) -> Any:
        if isinstance(words, list):
            check_list(words)
        elif words is not None and words not in read_english_lists():
            allowed = ", ".join(read_english_lists())
            raise SettingError(allowed=f"{allowed}, or a list of words")
        return words

    @model_validator(mode="after")
    def _check_changes(self) -> Perturbation:
        changes = self.model_dump(include=_CHANGES, exclude_defaults=True)
        if len(changes) != 1 or "" in (self.replace or ()):
            raise SettingError(
                got=f"has {', '.join(changes) or 'no change'}",
                allowed=f"one of {', '.join(sorted(_CHANGES))}, with a text to change",
            )
        return self


_CHANGES = set(Perturbation.model_fields) - {"column"}


class PerturbationSettings(CheckSettings):
    """A list of perturbations, or a section that has it with other settings.

    Attributes:
      rows: The most versions of rows of each perturbation. Of more, a sample is
        predicted, which is the same for any order of the rows.
    """

    rows: PositiveInt = 256

    @model_validator(mode="before")
    @classmethod
    def _read_list(cls, section: Any) -> Any:
        return {"perturbations": section} if isinstance(section, list) else section


_Perturbation = TypeVar("_Perturbation", bound=Perturbation)


def name_perturbations(
    perturbations: Iterable[_Perturbation],
) -> dict[str, _Perturbation]:
    """Returns perturbations by their descriptions; equal ones get a number."""
    named: dict[str, _Perturbation] = {}
    for perturbation in perturbations:
        name = description = perturbation.description
        for number in itertools.count(2):
            if name not in named:
                break
            name = f"{description} ({number})"
        named[name] = perturbation
    return named


def check_columns(perturbations: Sequence[Perturbation], task: TaskConfig) -> None:
    """Refuses perturbations that cannot change the texts of a task.

    Raises:
      SettingError: The task has no texts, or a column is unknown or missing.
    """
    if perturbations and task.is_tokenized:
        raise SettingError(
            "perturbations",
            "the rows have token ids and no texts",
            advice="leave the check out",
        )
    columns = task.text_columns
    for index, perturbation in enumerate(perturbations):
        allowed: list[str | None] = [*columns]
        if len(columns) == 1 or perturbation.swap_words is not None:
            allowed.append(None)
        if perturbation.column not in allowed:
            name = perturbation.column
            raise SettingError(
                f"perturbations.{index}.column",
                "missing, but a row is a pair" if name is None else repr(name),
                ", ".join(columns),
            )


def _match_words(phrase: str) -> str:
    """Returns a pattern for a phrase that neither starts nor ends inside a word."""
    start = r"\b" if re.match(r"\w", phrase) else ""
    end = r"\b" if re.search(r"\w\Z", phrase) else ""  # not after `Mr.`
    return f"{start}{re.escape(phrase)}{end}"


def _swap_letters(text: str, count: int) -> str:
    """Returns a text with pairs of neighbouring letters swapped.

    Args:
      text: The text. Equal texts get equal typos.
      count: The number of pairs; fewer if the text has fewer different neighbours.
    """
    places = [
        index
        for index, (letter, after) in enumerate(itertools.pairwise(text))
        if letter.isalpha() and after.isalpha() and letter != after
    ]
    letters = list(text)
    for place in random.Random(text).sample(places, min(count, len(places))):
        letters[place : place + 2] = reversed(letters[place : place + 2])
    return "".join(letters)
