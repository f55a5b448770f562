"""The TSV files of GLUE's own archives, whose columns are not TFDS's."""

from __future__ import annotations

import dataclasses
import itertools

from modules.config.task import TaskConfig


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the archive of a task writes its rows.

    Attributes:
      columns: TFDS's name of each of the archive's columns, where they differ.
      headerless: The columns of files that have no header; empty where all have one.
      leaves_out_short_rows: Whether rows without all columns, or without a label,
        are known to be there and left out by TFDS.
    """

    columns: dict[str, str]
    headerless: tuple[str, ...] = ()
    leaves_out_short_rows: bool = False


_ID = {"index": "idx"}
# By the task's name in `modules.config.task.GLUE`.
LAYOUTS = {
    "cola": Layout(_ID, headerless=("source", "label", "judgement", "sentence")),
    "sst2": Layout(_ID),
    "mrpc": Layout(
        {
            **_ID,
            "Quality": "label",
            "#1 String": "sentence1",
            "#2 String": "sentence2",
        }
    ),
    "stsb": Layout({**_ID, "score": "label"}),
    "qqp": Layout({"id": "idx", "is_duplicate": "label"}, leaves_out_short_rows=True),
    "mnli": Layout(
        {
            **_ID,
            "gold_label": "label",
            "sentence1": "premise",
            "sentence2": "hypothesis",
        }
    ),
    "qnli": Layout(_ID),
    "rte": Layout(_ID),
    "wnli": Layout(_ID),
}
# Nobody else has columns of these names.
_SIGNS_OF_MRPC = {"#1 String", "#2 String"}


def find_layout(first_line: list[str], task: TaskConfig | None = None) -> Layout | None:
    """Returns the layout of a file, or None if it is not of GLUE's own archives.

    Args:
      first_line: The fields of its first line.
      task: What the file is read for; MRPC's is recognized without.
    """
    if task is not None and task.name is not None:
        layout = LAYOUTS[task.name]
        if layout.columns.keys() & set(first_line):
            return layout
        return layout if is_headerless(layout, first_line) else None
    return LAYOUTS["mrpc"] if set(first_line) >= _SIGNS_OF_MRPC else None


def is_headerless(layout: Layout, first_line: list[str]) -> bool:
    """Tells whether the first line of a file is a row already."""
    names = layout.headerless
    return len(first_line) == len(names) > 0 and not set(names) & set(first_line)


def name_columns(
    header: list[str], row: list[str], layout: Layout, task: TaskConfig | None = None
) -> list[str]:
    """Gives the columns of an archive TFDS's names.

    Args:
      header: The archive's names.
      row: The first row.
      layout: Of the archive.
      task: Its own columns keep their names.

    Returns:
      The names in the order of the header. The archive's index becomes the id where
      it is a whole number.
    """
    own: set[str] = set()
    if task is not None:
        own = {*task.text_columns, task.label_column, task.id_column}
    names = []
    for column, value in itertools.zip_longest(header, row[: len(header)]):
        name = layout.columns.get(column, column)
        is_taken = column in own or name in header
        is_no_id = name == "idx" and not (value or "").isdecimal()
        names.append(column if is_taken or is_no_id else name)
    return names


def is_left_out(row: dict[str, str], header: list[str], layout: Layout) -> bool:
    """Tells whether TFDS leaves a row out: it ends early, or its label is empty.

    Args:
      row: What there is of it, by TFDS's names.
      header: All columns.
      layout: Of the archive.
    """
    if not layout.leaves_out_short_rows:
        return False
    return len(row) < len(header) or not row.get("label", "0")
