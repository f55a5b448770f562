"""Splits rows by a hash, so that a new row moves no other row."""

from __future__ import annotations

import functools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from contracts.errors import UsageError
from contracts.settings.data import SPLITS, TEST, DataConfig
from contracts.task.definition import EVAL_SPLIT, TRAIN_SPLIT, TaskConfig
from ingest.examples import groups
from ingest.examples.bad_rows import BadRows
from ingest.examples.halving import Halving
from ingest.examples.splits import GoodRow, number_rows
from ingest.examples.units import Units
from ingest.rows.row_errors import Location
from ingest.rows.spool import Spool
from modules.data.row_facts import hash_texts

_NUMBERS = {2: "two", 3: "three"}
# Plain tuples: pickle takes twice as long for named ones.
_Spool = Spool[tuple[Any, ...]]


def split_rows(
    rows: Iterable[GoodRow],
    bad_rows: BadRows,
    task: TaskConfig,
    settings: DataConfig,
    shares: Mapping[str, float],
) -> dict[str, Iterator[GoodRow]]:
    """Splits rows, which are read once and kept on disk until all are known.

    Args:
      rows: The rows.
      bad_rows: Those that were left out of them.
      task: Names the columns.
      settings: `group_column` and `split_seed`.
      shares: See `Units.split`. The rest of the rows is in `train`.

    Returns:
      The rows of each split. The first one reads all rows. It raises a `UsageError` if
      a class has fewer units than there are splits.
    """
    spool: _Spool = Spool(bad_rows.directory)
    names = [TRAIN_SPLIT, *shares]

    @functools.cache
    def read() -> list[str]:
        """Returns the split of each row."""
        units = Units(task)
        deque(_keep(rows, task, units, spool), maxlen=0)  # reads all of them
        small = units.find_small_classes(len(names))
        # Bad rows are refused before that.
        if small and (bad_rows.skips or not bad_rows.counts):
            kind = "groups" if settings.group_column else "different texts"
            kept = [name for name in task.classes or () if name not in small]
            least = _NUMBERS[len(names)]
            advice = "add rows"
            of_classes = f" of {', '.join(small)}" if task.classes else ""
            if len(kept) > 1:
                classes = json.dumps(kept)
                advice += (
                    f", or leave out their classes with `task.classes={classes}` "
                    "`data.on_bad_rows=skip`"
                )
            raise UsageError(
                "data.source",
                f"it has fewer than {least} {kind}{of_classes}, which cannot be in "
                f"{least} splits ({', '.join(names)})",
                advice=advice,
                name="E-class-too-small",
            )
        return units.split(TRAIN_SPLIT, shares, str(settings.split_seed))

    return {name: _take(name, read, spool) for name in names}


def complete_splits(
    opened: Mapping[str, Iterator[GoodRow] | None],
    bad_rows: BadRows,
    task: TaskConfig,
    settings: DataConfig,
    halving: Halving | bool | None,
) -> dict[str, Iterator[GoodRow] | None]:
    """Halves `eval` if it may, checks the groups, and numbers rows without an id.

    Args:
      opened: The rows by split; None for a split without labels.
      bad_rows: Those that were left out of them.
      task: Names the columns.
      settings: `group_column` and `split_seed`.
      halving: Whether `eval` is halved into `eval` and `test` if there is no `test`, or
        what decides it by the labels; None: never. Its rows are then read here.

    Raises:
      UsageError: While the rows are read: a group is in two splits.
    """
    completed = dict(opened)
    rows = completed.get(EVAL_SPLIT)
    if halving and rows is not None and completed.get(TEST) is None:
        completed |= _halve(rows, bad_rows, task, settings, halving)
    ordered = {name: completed[name] for name in SPLITS if name in completed}
    return {
        name: rows and number_rows(rows, task.id_column)
        for name, rows in groups.refuse_shared(ordered, settings).items()
    }


def _halve(
    rows: Iterable[GoodRow],
    bad_rows: BadRows,
    task: TaskConfig,
    settings: DataConfig,
    halving: Halving | bool,
) -> dict[str, Iterator[GoodRow]]:
    units = Units(task)
    spool: _Spool = Spool(bad_rows.directory)
    labels = list(_keep(rows, task, units, spool))
    # The rows may be those of another split by the same seed.
    splits = units.split(EVAL_SPLIT, {TEST: 0.5}, f"halves {settings.split_seed}")
    names = [EVAL_SPLIT, TEST]
    halves = [np.array(labels, float)[np.array(splits) == name] for name in names]
    if isinstance(halving, Halving) and not halving.allows(task, halves):
        names, splits = [EVAL_SPLIT], [EVAL_SPLIT] * len(splits)
    return {name: _take(name, lambda: splits, spool) for name in names}


def _keep(
    rows: Iterable[GoodRow], task: TaskConfig, units: Units, spool: _Spool
) -> Iterator[Any]:
    """Adds rows to units and to a spool, and yields their labels."""
    for (file, number), features, _, group in rows:
        text_hash = hash_texts([features[column] for column in task.text_columns])
        units.add(text_hash, group, features[task.label_column])
        spool.append((file, number, features, text_hash, group))
        yield features[task.label_column]


def _take(
    name: str, read_splits: Callable[[], list[str]], spool: _Spool
) -> Iterator[GoodRow]:
    for split, (file, number, *content) in zip(read_splits(), spool, strict=True):
        if split == name:
            yield GoodRow(Location(file, number), *content)
