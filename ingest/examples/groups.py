"""Refuses groups of rows, such as those of an author, that are in two splits."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

from contracts import wording
from contracts.errors import DataRefusedError
from contracts.settings.data import DataConfig
from ingest.examples.splits import GoodRow

_SHOWN = 3

_Splits = Mapping[str, Iterator[GoodRow] | None]


def refuse_shared(opened: _Splits, settings: DataConfig) -> _Splits:
    """Returns the rows of each split, which fail at the end of a split.

    Args:
      opened: The splits, which are read one after the other; None for one without
        labels.
      settings: `group_column`; None checks nothing.

    Raises:
      DataRefusedError: While the rows are read. A group is also in an earlier split.
    """
    if settings.group_column is None:
        return opened
    rows_by_split: dict[str, Counter[str]] = {}

    def check(split: str, rows: Iterator[GoodRow]) -> Iterator[GoodRow]:
        counts: Counter[str] = Counter()
        for row in rows:
            if row.group is not None:
                counts[row.group] += 1
            yield row
        for earlier, others in rows_by_split.items():
            shared = sorted(counts.keys() & others.keys())
            if shared:
                raise DataRefusedError(
                    got=f"{wording.count(len(shared), 'value')} of data.group_column "
                    f"{settings.group_column} {'is' if len(shared) == 1 else 'are'} in "
                    f"{earlier} and {split}: "
                    + "; ".join(
                        f"{name!r} in {wording.count(others[name], 'row')} of "
                        f"{earlier} and "
                        f"{counts[name]} of {split}"
                        for name in itertools.islice(shared, _SHOWN)
                    )
                    + ("; ..." if len(shared) > _SHOWN else "")
                    + ". Move the rows of each value to one split, give one file "
                    "without splits, or leave data.group_column out",
                    name="E-groups-across-splits",
                )
        rows_by_split[split] = counts

    return {split: rows and check(split, rows) for split, rows in opened.items()}
