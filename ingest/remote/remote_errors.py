"""Errors of remote file systems as usage errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from contracts.errors import UsageError


@contextlib.contextmanager
def usage_errors(source: str, copy: str) -> Iterator[None]:
    """Turns TensorFlow's errors of a source into usage errors.

    Args:
      source: The source.
      copy: The setting that takes a local copy, such as "`data.source=DIR`".

    Raises:
      UsageError: The source cannot be read.
    """
    # Every command imports this file, and `--help` must not wait for TensorFlow.
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        raise UsageError(
            source,
            f"cannot be read: {' '.join(str(error).split())[:200]}",
            advice="without a network or credentials for it, give a local copy: "
            + copy,
            name="E-network-failed",
        ) from error
