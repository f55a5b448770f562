"""The layouts of the TSV files in GLUE's own archives."""

from __future__ import annotations

import dataclasses
import itertools

from contracts.task.definition import TaskConfig


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of a task's files.

    Attributes:
      columns: The names of TFDS, by the archive's names if they differ.
      headerless: The columns of files without a header; empty if all have one.
      leaves_out_short_rows: Whether the archive has rows that lack columns or a label,
        which TFDS leaves out.
    """

    columns: dict[str, str]
    headerless: tuple[str, ...] = ()
    leaves_out_short_rows: bool = False


_ID = {"index": "idx"}
# By the task's name in `contracts.task.definition.GLUE`.
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
# No other data set has these columns.
_SIGNS_OF_MRPC = {"#1 String", "#2 String"}


def find_layout(first_line: list[str], task: TaskConfig | None = None) -> Layout | None:
    """Returns the layout of a file, or None if it is not of GLUE's own archives.

    Args:
      first_line: The fields of its first line.
      task: Names the GLUE task; the layout of MRPC is recognized without a task.
    """
    if task is not None and task.name is not None:
        layout = LAYOUTS[task.name]
        if layout.columns.keys() & set(first_line):
            return layout
        return layout if is_headerless(layout, first_line) else None
    return LAYOUTS["mrpc"] if set(first_line) >= _SIGNS_OF_MRPC else None


def is_headerless(layout: Layout, first_line: list[str]) -> bool:
    """Returns whether the first line of a file is a row instead of a header."""
    names = layout.headerless
    return len(first_line) == len(names) > 0 and not set(names) & set(first_line)


def name_columns(
    header: list[str], row: list[str], layout: Layout, task: TaskConfig | None = None
) -> list[str]:
    """Returns the names of TFDS for the columns of an archive.

    Args:
      header: The archive's names.
      row: The first row.
      layout: The archive's layout.
      task: Its columns keep their names.

    Returns:
      The names in the order of the header. The archive's index becomes the id if it is
      a whole number.
    """
    task_columns: set[str] = set()
    if task is not None:
        task_columns = {*task.text_columns, task.label_column, task.id_column}
    names = []
    for column, value in itertools.zip_longest(header, row[: len(header)]):
        name = layout.columns.get(column, column)
        is_taken = column in task_columns or name in header
        is_no_id = name == "idx" and not (value or "").isdecimal()
        names.append(column if is_taken or is_no_id else name)
    return names


def is_left_out(row: dict[str, str], header: list[str], layout: Layout) -> bool:
    """Returns whether TFDS leaves a row out: it lacks columns, or its label is empty.

    Args:
      row: Its values by TFDS's names.
      header: All columns.
      layout: The archive's layout.
    """
    if not layout.leaves_out_short_rows:
        return False
    return len(row) < len(header) or not row.get("label", "0")
