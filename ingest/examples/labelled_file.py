"""Reads a file of labelled rows, which a check of a model predicts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from contracts import wording
from contracts.errors import SettingError, UsageError
from contracts.records.labelled_rows import LabelledRow
from contracts.row_values import is_missing
from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from contracts.task.label_cells import to_text
from ingest.examples.label_parser import LabelParser, NotAnIndexError
from ingest.examples.row_parser import RowParser
from ingest.examples.sources import Source, open_source
from ingest.examples.text_source import find_class_names
from ingest.rows.formats import TFRECORD
from ingest.rows.row_errors import FileError, RowError

# The columns of a row with a score, and those that any row may have.
_SCORES = ("lowest", "highest")
_WORDS = ("group", "why")
_SHOWN = 5


def read(path: str, task: TaskConfig, setting: str) -> list[LabelledRow]:
    """Returns the rows of a file in any format that `data.source` may have.

    The file has the text columns of the task, its label as `data.source` has it, or the
    columns `lowest` and `highest` for a score, and may have the columns `group` and
    `why`. The settings of the section `data` do not apply to it.

    Args:
      path: The file.
      task: Names the columns.
      setting: The dotted key of the setting, for errors.

    Raises:
      UsageError: The file does not exist or is damaged, or a row is bad.
    """
    if task.is_tokenized:
        raise SettingError(
            setting,
            "a file of texts, but task.input is tokenized",
            advice="leave it out",
        )
    if not os.path.isfile(path):
        raise UsageError(
            setting,
            f"{path} is not a file of this machine",
            advice="correct the path",
            name="E-data-not-found",
        )
    source = open_source(path, {None: [path]}, DataConfig())
    try:
        return _read_rows(source, task, setting)
    except NotAnIndexError:
        named = task.model_copy(update={"labels": "name"})
        return _read_rows(source, named, setting)


def _read_rows(source: Source, task: TaskConfig, setting: str) -> list[LabelledRow]:
    has_scores = not task.label_kind.names
    columns = _SCORES if has_scores else (task.label_column,)
    names: dict[str, str] = {}
    if not has_scores and not task.has_label_columns:
        names = find_class_names(source, None, task.label_column)
    is_record = source.files[None][0].file_format == TFRECORD
    settings, parsers = DataConfig(), []
    for column in columns:
        labelled = task.model_copy(update={"label_column": column})
        labels = LabelParser(labelled, settings)
        parsers.append(
            RowParser(labelled, settings, labels, names, has_examples=is_record)
        )
    rows, problems = [], []
    for location, row in source.read(None, task):
        try:
            if isinstance(row, FileError):
                raise UsageError(str(location), str(row), name="E-file-damaged")
            if isinstance(row, RowError):
                raise row
            rows.append(_parse(row, parsers, columns, task))
        except RowError as error:
            problems.append(f"{location}: {error}")
    if problems:
        count, more = wording.count(len(problems), "row"), len(problems) - _SHOWN
        lines = problems[:_SHOWN] + [f"and {more} more"] * (more > 0)
        raise UsageError(
            setting,
            "\n  ".join([f"{count} cannot be used:", *lines]),
            advice="correct the file",
            name="E-rows-refused",
        )
    if not rows:
        raise UsageError(
            setting,
            f"{source.location} has no rows",
            advice="add some, or leave the setting out",
            name="E-rows-refused",
        )
    return rows


def _parse(
    row: Mapping[str, Any],
    parsers: list[RowParser],
    columns: tuple[str, ...],
    task: TaskConfig,
) -> LabelledRow:
    # Both columns are of the data only: a file may number its rows in any way.
    ignored = {task.id_column, task.weight_column} - {*task.text_columns}
    kept = {name: value for name, value in row.items() if name not in ignored}
    features: dict[str, Any] = {}
    for parser in parsers:
        features |= parser.parse(kept)
    label, *highest = (features[column] for column in columns)
    if highest and label > highest[0]:
        raise RowError(f"lowest is {label:g}, which is above highest, {highest[0]:g}")
    scores = dict(zip(_SCORES, [label, *highest], strict=True)) if highest else {}
    words = {
        name: to_text(row[name])
        for name in _WORDS
        if name not in (*task.text_columns, *task.label_columns)
        and not is_missing(row.get(name))
    }
    return LabelledRow(
        texts={column: features[column] for column in task.text_columns},
        **(scores or {"label": label}),
        **words,
    )
