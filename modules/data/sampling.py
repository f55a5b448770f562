"""Draws rows: a sample that is the same for any order of the rows."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

_Row = TypeVar("_Row")


def draw(
    rows: Iterable[_Row], most: int | None, content: Callable[[_Row], bytes]
) -> list[_Row]:
    """Returns a sample of rows in an order that only their contents determine.

    Args:
      rows: The rows; they need not fit into memory.
      most: The number of rows, fewer if there are fewer; None returns all.
      content: Returns the content of a row. Rows with equal contents keep their order.
    """

    def key(row: _Row) -> bytes:
        return hashlib.blake2b(content(row), digest_size=8).digest()

    if most is None:
        return sorted(rows, key=key)
    return heapq.nsmallest(most, rows, key=key)
