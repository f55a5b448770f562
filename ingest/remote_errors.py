"""Errors of remote file systems as usage errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from contracts.errors import UsageError


@contextlib.contextmanager
def usage_errors(source: str, option: str) -> Iterator[None]:
    """Turns TensorFlow's errors of a source into usage errors.

    Args:
      source: The source, after the setting that names it.
      option: The option of the command line that takes a local copy.

    Raises:
      UsageError: The source cannot be read.
    """
    # Every command imports this file, and `--help` must not wait for TensorFlow.
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        raise UsageError(
            got=f"{source} cannot be read: {str(error)[:200]}. Without a network or "
            f"credentials for it, give a local copy with {option}",
            name="E-network-failed",
        ) from error
