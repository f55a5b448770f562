"""Rows of TSV files, in TFDS's columns, the user's own, or GLUE's archives'."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from modules.config.task import TaskConfig
from pipeline.config.errors import UsageError
from pipeline.inputs.examples import glue_files, splits
from pipeline.inputs.examples.splits import Report, Row, Rows


def find_tables(source: str) -> dict[str, Path]:
    """Returns the TSV file of each split in a directory.

    Raises:
      UsageError: The directory does not exist, or two files are one split.
    """
    directory = Path(source)
    if not directory.is_dir():
        raise UsageError(
            f"data {source} is not a directory; give one with train.tsv and eval.tsv "
            "(or TFRecords of the same splits), or tfds:NAME"
        )
    found: dict[str, Path] = {}
    for name, split in splits.SPLIT_NAMES.items():
        path = directory / f"{name}.tsv"
        if not path.is_file():
            continue
        if split in found:
            raise UsageError(
                f"data {source} has {found[split].name} and {path.name}, which are "
                f"both the split {split}; keep one of them"
            )
        found[split] = path
    return {split: found[split] for split in splits.SPLITS if split in found}


def open_tables(
    source: str, task: TaskConfig, report: Report
) -> dict[str, Rows | None]:
    """Returns the rows of each split in a directory of TSV files.

    Args:
      source: The directory.
      task: Names the columns.
      report: Called with what a person would want to know.

    Returns:
      Rows by split; None for a split without labels.

    Raises:
      UsageError: A split or a column is missing; while rows are read, one that is
        malformed.
    """
    found = find_tables(source)
    splits.require_splits(source, found, "*.tsv")
    tables: dict[str, Rows | None] = {}
    for split, path in found.items():
        _, first = next(read_table(path, task), (0, {}))
        if splits.has_labels(str(path), split, first, task):
            tables[split] = _located(path, task, report)
            continue
        reason = "only -1 for" if task.label_column in first else "no column"
        report(f"{path.name} has {reason} {task.label_column}: left out")
        tables[split] = None
    return tables


def read_table(
    path: Path, task: TaskConfig | None = None, report: Report = lambda _: None
) -> Iterator[tuple[int, Row]]:
    """Reads a TSV file as GLUE ships it: mostly with a header, and no quoting.

    Args:
      path: The file, UTF-8.
      task: What it is read for; tells which of GLUE's archives it may come from.
      report: Called with what a person would want to know, after the last row.

    Yields:
      Line numbers and rows by column name.

    Raises:
      UsageError: The header repeats a column, or a row has more or fewer fields than
        the header.
    """
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        lines = (line.rstrip("\r\n") for line in file)
        table = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        numbered = ((table.line_num, fields) for fields in table)
        try:
            yield from _read_rows(path, numbered, task, report)
        except (UnicodeDecodeError, csv.Error) as error:
            raise UsageError(f"{path}:{table.line_num + 1}: {error}") from error


def _read_rows(
    path: Path,
    lines: Iterator[tuple[int, list[str]]],
    task: TaskConfig | None,
    report: Report,
) -> Iterator[tuple[int, Row]]:
    number, header = next(lines, (0, []))
    layout = glue_files.find_layout(header, task)
    if layout and glue_files.is_headerless(layout, header):
        lines = itertools.chain([(number, header)], lines)
        header = list(layout.headerless)
    elif repeated := find_repeated(header):
        raise UsageError(f"{path}:{number}: {repeated}")
    first = next(lines, None)
    if first is None:
        return
    if layout:
        header = glue_files.name_columns(header, first[1], layout, task)
    left_out = 0
    for number, fields in itertools.chain([first], lines):
        row = dict(zip(header, fields, strict=False))
        if layout and glue_files.is_left_out(row, header, layout):
            left_out += 1
            continue
        if len(fields) != len(header):
            raise UsageError(
                f"{path}:{number}: {len(fields)} fields, the header has {len(header)}"
            )
        yield number, row
    if left_out:
        report(f"{path.name}: {left_out} malformed rows left out, as TFDS does")


def find_repeated(header: list[str]) -> str:
    """Returns what is wrong with a header that repeats a column; empty if none does."""
    repeated = [repr(name) for name, count in Counter(header).items() if count > 1]
    if not repeated:
        return ""
    return (
        f"the header has the column {', '.join(repeated)} more than once; rename or "
        "remove the others"
    )


def _located(path: Path, task: TaskConfig, report: Report) -> Rows:
    for line, row in read_table(path, task, report):
        yield f"{path}:{line}", row
