"""The settings of the check with swapped words for groups of people."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from contracts.section import Settings
from contracts.task.definition import TaskConfig

# By the name of a list, its rows. A column has the words for a group, and a row those
# that replace each other.
GroupWords = dict[str, list[list[str]]]
ChangedByWords = Literal["warn", "refuse"]

WORD = re.compile(r"\w+(?:[-\u2010]\w+)*")


class WordSettings(Settings):
    """The words that are swapped in evaluated texts, and what may change by that.

    Attributes:
      lists: `evaluator.group_words`; None takes those of ServingCheck.
      max_changed: `evaluator.max_changed_by_words`.
      changed: `evaluator.changed_by_words`.
      task: The task, whose label kind compares the predictions.
    """

    lists: GroupWords | None
    max_changed: float
    changed: ChangedByWords
    task: TaskConfig


def find_problem(lists: GroupWords) -> str | None:
    """Returns why words cannot be swapped, or None."""
    for name, rows in lists.items():
        sizes = {len(row) for row in rows}
        if len(sizes) != 1 or min(sizes) < 2:
            return (
                f"{name!r} has rows of {sorted(sizes)} words; give one row or more, "
                "and in each a word for each of the same two or more groups, such as "
                "[[he, she], [man, woman]]"
            )
        for word in (word for row in rows for word in row):
            if not WORD.fullmatch(word):
                return (
                    f"{name!r} has {word!r}, which is not one word; leave its row out, "
                    "or write words of letters, digits and hyphens"
                )
        columns = [
            {word.lower() for word in column} for column in zip(*rows, strict=True)
        ]
        counts = Counter(word for column in columns for word in column)
        for word in (word for word, count in counts.items() if count > 1):
            return f"{name!r} has {word!r} for two groups; a word names one of them"
    return None
