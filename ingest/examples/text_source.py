"""The rows of the files on this machine, by split."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from contracts.errors import UsageError
from contracts.settings.data import TEST, DataConfig
from contracts.task.definition import EVAL_SPLIT, TRAIN_SPLIT, TaskConfig
from ingest.examples import hugging_face_datasets, splits, splitting
from ingest.examples.bad_rows import BadRows
from ingest.examples.label_parser import LabelParser
from ingest.examples.row_parser import RowParser
from ingest.examples.sources import Source
from ingest.examples.splits import GoodRow, Report, Row, by_index
from ingest.rows.formats import TFRECORD
from ingest.rows.row_errors import RowError


def open_splits(
    source: Source,
    task: TaskConfig,
    settings: DataConfig,
    report: Report,
    bad_rows: BadRows,
    watch: Callable[[Row | RowError], None] | None = None,
) -> dict[str, Iterator[GoodRow] | None]:
    """Returns the rows of each split of a source, for `splitting.complete_splits`.

    Args:
      source: The files. Rows of no split are split into `train` and `eval`, and into
        `test` if the source has no such split with labels.
      task: Names the columns.
      settings: How the rows are split, and which rows are bad.
      report: Called with a line for the user.
      bad_rows: Collects the bad rows.
      watch: Called with each row of `train`, or of a source without splits.

    Returns:
      The splits; None for one without labels.

    Raises:
      UsageError: A column is missing, or a split that a run needs has no rows.
      NotAnIndexError: See `LabelParser`; the rows raise it, too.
    """
    opened: dict[str, Iterator[GoodRow] | None] = {}
    labels = LabelParser(task, settings)
    for split in sorted(source.files, key=lambda split: split is None):
        is_records = source.files[split][0].file_format == TFRECORD
        names: dict[str, str] = {}
        if not task.has_label_columns:
            names = find_class_names(source, split, task.label_column)
        splits.refuse_other_classes(source.describe(split), names, task)
        rows = source.read(split, task)
        if watch and split in (None, TRAIN_SPLIT):
            rows = splits.watch(rows, watch)
        labelled = splits.take_labelled(
            source.describe(split),
            split or TRAIN_SPLIT,
            rows,
            task,
            report,
            are_records=is_records,
        )
        parser = RowParser(task, settings, labels, names, has_examples=is_records)
        if labelled is None:
            opened[str(split)] = None
            continue
        rows_of_split = bad_rows.filter(split or TRAIN_SPLIT, labelled, parser)
        if split is None:
            shares = {TEST: settings.test_size, EVAL_SPLIT: settings.eval_size}
            if opened.get(TEST) is not None:
                del shares[TEST]
            opened |= splitting.split_rows(
                rows_of_split, bad_rows, task, settings, shares
            )
        else:
            opened[split] = rows_of_split
    return opened


def find_class_names(source: Source, split: str | None, column: str) -> dict[str, str]:
    """Returns the names of classes by index that the files of a split have.

    Raises:
      UsageError: Two files have different names.
    """
    files = source.files[split]
    first, *others = (
        hugging_face_datasets.class_names(file.path, file.file_format, column)
        for file in files
    )
    for file, names in zip(files[1:], others, strict=True):
        if names != first:
            raise UsageError(
                file.path,
                f"it has the classes {names} for {column}, but {files[0].path} has "
                f"{first}",
                advice="save them again with the same names",
                name="E-classes-differ",
            )
    return by_index(first)
