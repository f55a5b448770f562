"""A user's data set, and the task that was guessed from it."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contracts.errors import SettingError, UsageError
from contracts.settings.data import TFDS_PREFIX, DataConfig
from contracts.storage import uris
from contracts.task.definition import EVAL_SPLIT, TRAIN_SPLIT, TaskConfig
from ingest.examples import splitting, text_source
from ingest.examples.bad_rows import BadRows
from ingest.examples.halving import Halving
from ingest.examples.sources import Source, find_source
from ingest.examples.splits import GoodRow, Report
from ingest.rows.formats import DELIMITED
from ingest.rows.row_errors import EncodingError, Location, RowError
from pipeline.config.recipe import make_task
from pipeline.onboarding import columns as columns_lib
from pipeline.onboarding.columns import Column
from pipeline.onboarding.guess import Guess, Kind, guess_task

# A small data set gets a larger share, so that its gate is precise enough. It grows in
# steps, because another share moves rows.
_LEAST_TEST_ROWS = 120
MOST_TEST_SIZE = 0.5
_CHOSEN_WITH = {
    "text_columns": "`text`",
    "label_column": "`label`",
    "kind": "`kind`",
    "name": "`text` and `label`; GLUE's tasks need no project",
    "input": "your own recipe, because init reads only text",
}


@dataclasses.dataclass(frozen=True)
class Choices:
    """What the user chose instead of a guess.

    Attributes:
      text: The text columns; empty guesses them.
      label: The label column; None guesses it.
      kind: Whether the label is a class, a score, or any number of labels; None guesses
        it.
      group: The column whose equal values keep rows in one split.
      columns: The names of the columns of files without a header, or a text with commas
        between them; empty reads them.
    """

    text: Sequence[str] = ()
    label: str | None = None
    kind: Kind | None = None
    group: str | None = None
    columns: str | Sequence[str] = ()


def override_task(task: TaskConfig, overrides: Mapping[str, Any]) -> TaskConfig:
    """Returns a task with the user's settings, by dotted key.

    Raises:
      UsageError: A key has its own option, or a value is not allowed.
    """
    settings = task.model_dump()
    for key, value in overrides.items():
        section, _, name = key.partition(".")
        if section != "task":
            continue
        if name in _CHOSEN_WITH:
            raise UsageError(
                key,
                "not a setting of a new project",
                advice=f"choose it with {_CHOSEN_WITH[name]}",
                name="E-options-conflict",
            )
        if key == "task.labels" and value is None:
            raise SettingError(key, "null", "name and index")
        settings[name] = value
    return make_task(settings)


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
      settings: How the files are read and split.
      origin: Where its rows came from, for the recipe and the data card.
    """

    source: Source
    settings: DataConfig
    columns: dict[str, Column]
    guess: Guess
    origin: str

    @property
    def task(self) -> TaskConfig:
        """The guessed task, with the user's choices."""
        return self.guess.task

    @property
    def needs_split(self) -> bool:
        """Whether the source has no split `eval`, so that its rows are split."""
        return EVAL_SPLIT not in self.source.files

    def open(
        self, report: Report, bad_rows: BadRows, halving: Halving | None
    ) -> dict[str, Iterator[GoodRow]]:
        """Returns the rows of each split with labels, `train` and `eval` among them.

        The arguments are those of `text_source.open_splits` and
        `splitting.complete_splits`.
        """
        source = self.source
        if self.needs_split and source.has_splits:
            source = dataclasses.replace(
                source,
                files={
                    None if split == TRAIN_SPLIT else split: files
                    for split, files in source.files.items()
                },
                kept={None: source.kept[TRAIN_SPLIT]},
            )
        task, settings = self.task, self.settings
        opened = text_source.open_splits(source, task, settings, report, bad_rows)
        completed = splitting.complete_splits(opened, bad_rows, task, settings, halving)
        return {name: rows for name, rows in completed.items() if rows is not None}


def remote_error(location: str) -> UsageError:
    """Returns the error of data that are not on this machine."""
    return UsageError(
        "data",
        location,
        "a file or directory of this machine",
        "copy the data here, or name them in a recipe with data.source",
        name="E-local-path-required",
    )


def look_at(
    location: str,
    settings: DataConfig,
    choices: Choices,
    overrides: Mapping[str, Any],
) -> DataSet:
    """Reads a data set once, and guesses its task.

    Raises:
      UsageError: The source has no files of text, or no rows for training; or several
        guesses are equally good.
    """
    if not uris.is_local(location) or location.startswith(TFDS_PREFIX):
        raise remote_error(location)
    source = find_source(location, settings)
    if not source.files:
        raise UsageError(
            "data",
            f"{location} has no files of text",
            advice="give a file, a directory with train.csv and eval.csv, or one with "
            "a folder of text files for each class",
            name="E-data-not-found",
        )
    if source.has_splits and TRAIN_SPLIT not in source.files:
        raise UsageError(
            "data",
            f"{location} has the splits {', '.join(map(str, source.files))}, but no "
            "train",
            advice="give the files of the rows to train on",
            name="E-split-missing",
        )
    split = TRAIN_SPLIT if source.has_splits else None
    separator = overrides.get("task.label_separator")
    separators = columns_lib.SEPARATORS if separator is None else (separator,)
    columns, count = _summarize(source, split, settings, separators)
    if not {"data.test_size", "data.eval_size"} & overrides.keys():
        share = math.ceil(10 * _LEAST_TEST_ROWS / count) / 10
        share = min(max(share, settings.test_size), MOST_TEST_SIZE)
        settings = settings.model_copy(update={"test_size": share})
    taken: dict[str | None, str] = {
        choices.group: "group",
        **{overrides.get(key): key for key in ("task.weight_column", "task.id_column")},
        **dict.fromkeys(settings.slice_columns, "data.slice_columns"),
    }
    classes = None
    if "task.classes" in overrides:
        chosen = {"task.classes": overrides["task.classes"]}
        classes = override_task(TaskConfig(labels="name"), chosen).classes
    guess = guess_task(
        columns,
        text=choices.text,
        label=choices.label,
        kind=choices.kind or ("multilabel" if separator else None),
        separator=separator,
        classes=classes,
        taken={name: setting for name, setting in taken.items() if name},
        class_names=lambda label: text_source.find_class_names(source, split, label),
        has_header=settings.columns is None
        and any(file.file_format in DELIMITED for file in source.all_files),
    )
    task = override_task(guess.task, overrides)
    guess = dataclasses.replace(guess, task=task)
    origin = os.path.abspath(location)
    return DataSet(source, settings, columns, guess, origin)


def _summarize(
    source: Source,
    split: str | None,
    settings: DataConfig,
    separators: Sequence[str],
) -> tuple[dict[str, Column], int]:
    """Returns the columns and the number of the training rows, and keeps the rows."""
    columns: dict[str, Column] = {}
    count = undecoded = 0
    first: tuple[Location, RowError] | None = None
    for location, row in source.read_and_keep(split):
        count += 1
        columns_lib.add_row(columns, row, separators)
        if isinstance(row, RowError):
            is_new_kind = isinstance(row, EncodingError) and not undecoded
            undecoded += isinstance(row, EncodingError)
            first = (location, row) if first is None or is_new_kind else first
    if undecoded and first and settings.on_bad_rows == "refuse":
        problem, _, advice = str(first[1]).partition("; ")
        raise UsageError(
            "data.encoding",
            f"{undecoded} of {count} rows are not {settings.encoding}: {first[0]}: "
            f"{problem}",
            advice=advice,
            name="E-file-damaged",
        )
    if not columns and first:
        problem, _, advice = str(first[1]).partition("; ")
        raise UsageError(str(first[0]), problem, advice=advice, name="E-rows-refused")
    if not columns:
        raise UsageError(
            source.describe(split),
            "no rows: the file is empty, or has a header and no rows",
            advice="add rows",
            name="E-split-missing",
        )
    return columns, count
