"""TSV files in TFDS's columns, the user's own, or those of GLUE's archives."""

from __future__ import annotations

import codecs
import csv
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from modules.config.task import TaskConfig
from pipeline.config.errors import UsageError
from pipeline.inputs.examples import glue_files, splits
from pipeline.inputs.examples.splits import Report, Row, Rows
from pipeline.inputs.row_errors import RowError


class _LeftOutError(RowError):
    """A malformed row that GLUE's archive is known to have, and TFDS leaves out."""


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
    paths: dict[str, Path] = {}
    for name, split in splits.SPLIT_NAMES.items():
        path = directory / f"{name}.tsv"
        if not path.is_file():
            continue
        if split in paths:
            raise UsageError(
                f"data {source} has {paths[split].name} and {path.name}, which are "
                f"both the split {split}; keep one of them"
            )
        paths[split] = path
    return {split: paths[split] for split in splits.SPLITS if split in paths}


def open_tables(
    source: str, task: TaskConfig, report: Report
) -> dict[str, Rows | None]:
    """Returns the rows of each split in a directory of TSV files.

    Args:
      source: The directory.
      task: Names the columns.
      report: Called with a line for the user.

    Returns:
      Rows by split; None for a split without labels.

    Raises:
      UsageError: A split or a column is missing; while rows are read, a malformed row.
    """
    paths = find_tables(source)
    splits.require_splits(source, paths, "*.tsv")
    tables: dict[str, Rows | None] = {}
    for split, path in paths.items():
        _, first = next(read_table(path, task), (0, {}))
        if splits.has_labels(str(path), split, first, task):
            tables[split] = _locate(path, task, report)
            continue
        reason = "only -1 for" if task.label_column in first else "no column"
        report(f"{path.name} has {reason} {task.label_column}: left out")
        tables[split] = None
    return tables


def read_table(
    path: Path, task: TaskConfig | None = None, report: Report = lambda _: None
) -> Iterator[tuple[int, Row]]:
    """Reads a TSV file of training data.

    Args:
      path: The file.
      task: Its GLUE task decides which layout of an archive the file may have.
      report: Called with a line for the user, after the last row.

    Yields:
      Line numbers and rows by column.

    Raises:
      UsageError: A line is malformed.
    """
    left_out = 0
    with open(path, "rb") as file:
        for number, row in parse_table(file, task):
            if isinstance(row, _LeftOutError):
                left_out += 1
            elif isinstance(row, RowError):
                raise UsageError(f"{path}:{number}: {row}") from row
            else:
                yield number, row
    if left_out:
        report(f"{path.name}: {left_out} malformed rows left out, as TFDS does")


def parse_table(
    lines: Iterable[bytes], task: TaskConfig | None = None
) -> Iterator[tuple[int, Row | RowError]]:
    """Parses TSV as GLUE ships it: UTF-8, mostly with a header, without quoting.

    Args:
      lines: The lines of a file.
      task: Its GLUE task decides which layout of an archive the lines may have. That of
        MRPC is recognized without.

    Yields:
      Line numbers from 1, and rows by column or the error of a malformed line. After an
      error in the header there are no rows.
    """
    numbered: Iterator[tuple[int, bytes]] = enumerate(lines, start=1)
    _, line = next(numbered, (0, b""))
    line = line.removeprefix(codecs.BOM_UTF8)
    try:
        header = _split(line)
        layout = glue_files.find_layout(header, task)
        if layout and glue_files.is_headerless(layout, header):
            numbered = itertools.chain([(1, line)], numbered)
            header = list(layout.headerless)
        else:
            _refuse_repeated(header)
    except RowError as error:
        yield 1, error
        return
    is_named = False
    for number, line in numbered:
        try:
            fields = _split(line)
            if layout and not is_named:
                header = glue_files.name_columns(header, fields, layout, task)
                is_named = True
            yield number, _to_row(header, fields, layout)
        except RowError as error:
            yield number, error


def _split(line: bytes) -> list[str]:
    try:
        text = line.rstrip(b"\r\n").decode()
        return next(csv.reader([text], delimiter="\t", quoting=csv.QUOTE_NONE), [])
    except UnicodeDecodeError as error:
        raise RowError(f"not UTF-8: {error}") from error
    except csv.Error as error:
        raise RowError(f"not a line of TSV: {error}") from error


def _to_row(
    header: list[str], fields: list[str], layout: glue_files.Layout | None
) -> Row:
    row = dict(zip(header, fields, strict=False))
    if layout and glue_files.is_left_out(row, header, layout):
        raise _LeftOutError
    if len(fields) != len(header):
        raise RowError(f"{len(fields)} fields, the header has {len(header)}")
    return row


def _refuse_repeated(header: list[str]) -> None:
    repeated = [repr(name) for name, count in Counter(header).items() if count > 1]
    if repeated:
        raise RowError(
            f"the header has the column {', '.join(repeated)} more than once; rename "
            "or remove the others"
        )


def _locate(path: Path, task: TaskConfig, report: Report) -> Rows:
    for line, row in read_table(path, task, report):
        yield f"{path}:{line}", row
