"""The units of a data set, which are rows that stay in one split, and their splits."""

from __future__ import annotations

import functools
import hashlib
from array import array
from collections.abc import Mapping

import numpy as np

from contracts.settings.data import TEST
from contracts.task.definition import EVAL_SPLIT, TaskConfig
from ingest.examples.label_parser import Label
from modules.data.row_facts import hash_texts, without_order


class Units:
    """Rows of equal texts, a pair and its reverse, and rows of one group are a unit.

    Otherwise a model would be evaluated on rows that it was trained on. All rows are
    added first.

    Args:
      task: The classes.
    """

    def __init__(self, task: TaskConfig) -> None:
        self._kind = task.label_kind
        self._classes = self._kind.names or ("the scores",)
        self._texts = array("Q")
        # The rows that have a group or a class, and what they have.
        self._grouped, self._groups = array("Q"), array("Q")
        self._labelled, self._labels = array("Q"), array("Q")

    def add(self, text_hash: int, group: str | None, label: Label) -> None:
        """Adds a row.

        Args:
          text_hash: `hash_texts` of its texts.
          group: Its group; None if it has none.
          label: The index of its class, its score, or 0 or 1 for each class.
        """
        row = len(self._texts)
        self._texts.append(text_hash)
        if group is not None:
            self._grouped.append(row)
            self._groups.append(hash_texts([group]))
        labels = self._kind.class_ids(label)
        self._labels.extend(labels)
        self._labelled.extend([row] * len(labels))

    def find_small_classes(self, least: int) -> list[str]:
        """Returns the classes that have rows, but fewer units than `least`."""
        _, labels = self._unit_labels
        counts = np.bincount(labels)
        small = np.flatnonzero((counts > 0) & (counts < least))
        return [self._classes[label] for label in small]

    def split(self, rest: str, shares: Mapping[str, float], salt: str) -> list[str]:
        """Returns the split of each row.

        The position of a unit between 0 and 1 is a hash of its smallest group, or else
        of its texts. The first ones are `test`, the last ones `eval`. So a new row only
        moves rows that it joins to its own unit, and a larger share only moves rows out
        of `rest`. If a split lacks a class, it gets the nearest unit of the class.

        Args:
          rest: The split of the other rows.
          shares: The shares of `test`, of `eval`, or of both in this order.
          salt: Hashes with different salts are independent.
        """
        units, keys = self._joined
        positions = np.array([_hash(f"{salt} {key}") for key in keys.tolist()])
        names = [rest, *shares]
        splits = np.zeros(len(keys), int)
        for number, (name, share) in enumerate(shares.items(), start=1):
            is_inside = positions < share if name == TEST else positions >= 1 - share
            splits[is_inside] = number
        _spread_classes(splits, names, positions, *self._unit_labels)
        return [names[number] for number in splits[units]]

    @functools.cached_property
    def _joined(self) -> tuple[np.ndarray, np.ndarray]:
        """The unit of each row, int64[rows], and the key of each, uint64[units]."""
        texts, by_text = np.unique(
            without_order(np.array(self._texts)), return_inverse=True
        )
        if not self._groups:
            return by_text, texts
        # Every command imports this file, and `--help` must not wait for SciPy.
        from scipy import sparse

        groups, by_group = np.unique(self._groups, return_inverse=True)
        size = len(texts) + len(groups)
        edges = sparse.coo_matrix(
            (
                np.ones(len(by_group), bool),
                (by_text[self._grouped], len(texts) + by_group),
            ),
            shape=(size, size),
        )
        count, components = sparse.csgraph.connected_components(edges, directed=False)
        keys = np.zeros(count, np.uint64)
        keys[components[: len(texts)]] = texts  # of units without groups, the only text
        # The smallest group is assigned last.
        keys[components[len(texts) :][::-1]] = groups[::-1]
        return components[by_text], keys

    @functools.cached_property
    def _unit_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """The unit and the class of each pair of them, int64[pairs] each."""
        units, _ = self._joined
        count = len(self._classes)
        pairs = units[np.array(self._labelled, int)] * count
        return np.divmod(np.unique(pairs + np.array(self._labels, int)), count)


def _spread_classes(
    splits: np.ndarray,
    names: list[str],
    positions: np.ndarray,
    units: np.ndarray,
    labels: np.ndarray,
) -> None:
    """Moves units to splits that lack one of their classes.

    Args:
      splits: Index of the split of each unit, int64[units]; modified in place.
      names: The splits. The first one has the rest of the units.
      positions: The position of each unit, float64[units].
      units: The unit of each pair of a unit and a class, int64[pairs].
      labels: The class of each pair.
    """
    counts = np.zeros((len(names), labels.max(initial=0) + 1), int)
    np.add.at(counts, (splits[units], labels), 1)
    rarest_first = np.argsort(counts.sum(axis=0), kind="stable")
    # The rest is last: the others take from it, and it gets a unit back if it must.
    for split in reversed(range(len(names))):
        for label in rarest_first.tolist():
            members = units[labels == label] if not counts[split, label] else ()
            if not len(members):
                continue
            members = members[np.argsort(positions[members])]
            if split and names[split] == EVAL_SPLIT:
                members = members[::-1]
            elif not split:
                is_first = np.array(names)[splits[members]] == TEST
                members = np.concatenate([members[is_first][::-1], members[~is_first]])
            unit = next(
                (
                    unit
                    for unit in members.tolist()
                    if splits[unit] < split
                    or (counts[splits[unit], labels[units == unit]] > 1).all()
                ),
                None if split else members[0],
            )
            if unit is not None:
                counts[splits[unit], labels[units == unit]] -= 1
                counts[split, labels[units == unit]] += 1
                splits[unit] = split


def _hash(text: str) -> float:
    """Returns a hash of a text between 0 and 1."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
