"""Splits the rows of a source without splits into train and eval."""

from __future__ import annotations

import functools
import itertools
import json
import shlex
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ingest.config import DataConfig
from ingest.examples.bad_rows import BadRows
from ingest.examples.row_parser import RowParser
from ingest.examples.splits import GoodRow, LocatedRow
from ingest.rows.row_errors import Location
from ingest.rows.spool import Spool
from modules.config.task import EVAL_SPLIT, TRAIN_SPLIT, TaskConfig
from modules.data.row_facts import hash_texts, without_order
from modules.errors import UsageError

_SCORE_STRATA = 10


def split_rows(
    rows: Iterable[LocatedRow],
    parser: RowParser,
    bad_rows: BadRows,
    task: TaskConfig,
    settings: DataConfig,
) -> dict[str, Iterator[GoodRow]]:
    """Splits rows, which are read once and kept on disk until all are known.

    Args:
      rows: Locations, and rows or the reason why one cannot be read.
      parser: Returns the features of a row.
      bad_rows: Collects the bad rows, as rows of `train`.
      task: Names the columns.
      settings: `test_size`, `group_column` and `split_seed`.

    Returns:
      The rows of `train` and `eval`. The first one reads all rows. It raises a
      `UsageError` if a file cannot be read, the group column is missing, or a class has
      too few rows for two splits.
    """
    # Plain tuples: pickle takes twice as long for named ones.
    waiting: Spool[tuple[Any, ...]] = Spool(bad_rows.directory)

    @functools.cache
    def read() -> np.ndarray:
        """Returns which of the good rows are in `eval`."""
        texts, groups, labels = array("Q"), array("Q"), array("d")
        for number, (location, row) in enumerate(rows):
            features = bad_rows.check(TRAIN_SPLIT, location, row, parser)
            if features is None:
                continue
            assert isinstance(row, dict)
            text_hash = hash_texts([features[column] for column in task.text_columns])
            texts.append(text_hash)
            label = features[task.label_column]
            labels.extend(label if task.is_multilabel else [label])
            group = parser.find_group(row)
            if settings.group_column is not None:
                name = ["row", str(number)] if group is None else [group]
                groups.append(hash_texts(name))
            waiting.append((*location, features, text_hash, group))
        try:
            shape = (-1, task.outputs) if task.is_multilabel else -1
            return choose_eval_rows(
                np.array(texts),
                np.array(groups),
                np.array(labels).reshape(shape),
                task,
                settings,
            )
        except UsageError:
            if bad_rows.skips or not bad_rows.counts:
                raise
            return np.zeros(len(texts), bool)  # the bad rows are refused first

    def take(split: str) -> Iterator[GoodRow]:
        is_chosen = read() == (split == EVAL_SPLIT)
        chosen = itertools.compress(waiting, is_chosen)
        for file, number, features, text_hash, group in chosen:
            yield GoodRow(Location(file, number), features, text_hash, group)

    return {TRAIN_SPLIT: take(TRAIN_SPLIT), EVAL_SPLIT: take(EVAL_SPLIT)}


def choose_eval_rows(
    texts: np.ndarray,
    groups: np.ndarray,
    labels: np.ndarray,
    task: TaskConfig,
    settings: DataConfig,
) -> np.ndarray:
    """Chooses the rows of the split `eval`.

    Rows of equal texts, a pair and its reverse, and rows of one group go to the same
    split: otherwise the model would be evaluated on rows that it was trained on. The
    splits are stratified by class, by the rarest of several labels, or by tenths of the
    scores, and the same seed gives the same splits.

    Args:
      texts: `hash_texts` of each row, uint64[rows].
      groups: A hash of the group of each row, uint64[rows]; empty without groups.
      labels: Indices of classes, or scores, float64[rows]; or 0 and 1,
        float64[rows, classes].
      task: The classes.
      settings: `test_size` and `split_seed`.

    Returns:
      bool[rows], True for the split `eval`.

    Raises:
      UsageError: A class has too few rows for two splits.
    """
    if not len(labels):
        return np.zeros(0, bool)
    units = _join(texts, groups)
    if task.is_multilabel:
        strata, counts = _find_rarest(labels, units)
        values = np.flatnonzero(counts)
        counts = counts[values]
    else:
        # The stratum of a unit is that of its first row.
        _, first = np.unique(units, return_index=True)
        strata = labels[first]
        if task.is_regression:
            ranks = np.argsort(np.argsort(strata, kind="stable"), kind="stable")
            strata = ranks * min(_SCORE_STRATA, len(ranks) // 2) // len(ranks)
        values, counts = np.unique(strata, return_counts=True)
    small = [
        task.classes[int(value)] if task.classes else "the scores"
        for value, count in zip(values, counts, strict=True)
        if count < 2
    ]
    if small:
        kind = "groups" if settings.group_column else "different texts"
        kept = json.dumps([name for name in task.classes or () if name not in small])
        raise UsageError(
            f"data has fewer than two {kind} of {', '.join(small)}, which cannot be in "
            "two splits; add rows, or leave out their classes with --set "
            f"{shlex.quote(f'task.classes={kept}')} --set data.on_bad_rows=skip",
            "E-class-too-small",
        )
    return _choose_units(strata, np.bincount(units), settings)[units]


def _find_rarest(
    labels: np.ndarray, units: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rarest label of each unit, and the units of each label.

    Units without a label have one more than the labels, int64[units].

    Args:
      labels: 0 or 1 for each label of each row, float64[rows, classes].
      units: The unit of each row, int64[rows].
    """
    of_unit = np.zeros((units.max() + 1, labels.shape[1]), bool)
    np.logical_or.at(of_unit, units, labels.astype(bool))
    counts = of_unit.sum(axis=0)
    by_rarity = np.argsort(counts, kind="stable")
    rarest = by_rarity[of_unit[:, by_rarity].argmax(axis=1)]
    return np.where(of_unit.any(axis=1), rarest, len(counts)), counts


def _join(texts: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Returns the number of each row's unit: the rows that must stay together."""
    _, by_text = np.unique(without_order(texts), return_inverse=True)
    if not len(groups):
        return by_text
    # Every command imports this file, and `--help` must not wait for SciPy.
    from scipy import sparse

    _, by_group = np.unique(groups, return_inverse=True)
    count = by_text.max() + 1
    size = count + by_group.max() + 1
    edges = sparse.coo_matrix(
        (np.ones(len(texts), bool), (by_text, count + by_group)), shape=(size, size)
    )
    _, components = sparse.csgraph.connected_components(edges, directed=False)
    _, units = np.unique(components[by_text], return_inverse=True)
    return units


def _choose_units(
    strata: np.ndarray, sizes: np.ndarray, settings: DataConfig
) -> np.ndarray:
    """Returns which units go to `eval`, bool[units], so that its rows have their share.

    scikit-learn's splitters count groups instead of rows, or take minutes for a million
    groups.

    Args:
      strata: The stratum of each unit; each stratum has two units or more.
      sizes: The rows of each unit.
      settings: `test_size` and `split_seed`.
    """
    shuffled = np.random.default_rng(settings.split_seed).permutation(len(strata))
    is_chosen = np.zeros(len(strata), bool)
    for stratum in np.unique(strata):
        units = shuffled[strata[shuffled] == stratum]
        target = max(round(settings.test_size * sizes[units].sum()), 1)
        chosen = _fill(sizes[units], target)
        if not chosen.any():
            chosen[sizes[units].argmin()] = True
        if chosen.all():
            chosen[sizes[units].argmax()] = False
        is_chosen[units[chosen]] = True
    return is_chosen


def _fill(sizes: np.ndarray, target: int) -> np.ndarray:
    """Returns which sizes, in their order, fill a target that they do not exceed."""
    chosen = np.zeros(len(sizes), bool)
    for index, size in enumerate(sizes.tolist()):
        if size <= target:
            chosen[index] = True
            target -= size
        if not target:
            break
    return chosen
