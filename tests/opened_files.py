"""Counts how often files are opened, whoever opens them."""

import contextlib
import os
import sys
from collections import Counter

_counts = None


def _count(event, arguments):
    if _counts is not None and event == "open" and isinstance(arguments[0], str):
        _counts[os.path.basename(arguments[0])] += 1


sys.addaudithook(_count)


@contextlib.contextmanager
def counted():
    """Yields the number of times that a file was opened since, by its name."""
    global _counts
    _counts = Counter()
    try:
        yield _counts
    finally:
        _counts = None
