"""The rows of a file of labelled rows, which were read and validated before a run."""

from __future__ import annotations

import os

from contracts.records import Record, RecordFile
from contracts.task.label_kind import LabelKind


class LabelledRow(Record):
    """A row of texts, and what must be predicted for it.

    Attributes:
      texts: The texts by column, in the order of `task.text_columns`.
      label: The index of a class, or 0 or 1 for each of several labels; None for a
        score.
      lowest: The lowest score; None for labels.
      highest: The highest score; None for labels.
      group: What the row belongs to, in the words of the file; empty without one.
      why: Why the row has this label, in the words of the file.
    """

    texts: dict[str, str]
    label: int | list[int] | None = None
    lowest: float | None = None
    highest: float | None = None
    group: str = ""
    why: str = ""

    def accepts(self, predicted: str, kind: LabelKind) -> bool:
        """Returns whether a prediction is the label, or is between both scores.

        Args:
          predicted: What `kind.describe` returns for the prediction.
          kind: What the task predicts.
        """
        value = kind.parse_description(predicted)
        if self.lowest is None or self.highest is None:
            return value == self.label
        return self.lowest <= value <= self.highest

    def describe(self, kind: LabelKind) -> str:
        """Returns the label, or both scores, as text."""
        if self.lowest is None or self.highest is None:
            return kind.describe(self.label)
        return f"{kind.describe(self.lowest)} to {kind.describe(self.highest)}"


class LabelledFile(RecordFile):
    """The rows of a file, in their order."""

    FILE = "rows.json"

    rows: list[LabelledRow]


def read_rows(path: str) -> list[LabelledRow]:
    """Returns the rows of a setting that is `LabelledRows`, local or remote.

    Args:
      path: The setting, as a check gets it.

    Raises:
      FileNotFoundError: The file does not exist.
    """
    file = LabelledFile.read(os.path.dirname(path))
    if file is None:
        raise FileNotFoundError(path)
    return file.rows
