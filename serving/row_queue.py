"""A random part of the rows of requests, for a thread that reads their texts."""

from __future__ import annotations

import queue
import threading
import time
from typing import NamedTuple, Protocol

import numpy as np

from serving.batching import Outputs
from serving.model_facts import ModelFacts
from serving.signatures import Signature, Tensors

_QUEUED_BYTES = 16 << 20
_ROW_BYTES = 2048  # of a queued row besides its texts, at most: arrays and outputs


class QueuedRows(NamedTuple):
    """Rows of a request.

    Attributes:
      time: When they were predicted, in Unix seconds.
      model: The version that predicted.
      texts: The texts by column, each object[rows] of bytes.
      outputs: The chosen outputs by name, each [rows, ...].
      rows: The number of rows.
      size: Their bytes in the queue, estimated.
    """

    time: float
    model: ModelFacts
    texts: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    rows: int
    size: int


class Observer(Protocol):
    """Gets the requests that were predicted, and must not delay their responses."""

    def offer(
        self, model: ModelFacts, signature: Signature, inputs: Tensors, outputs: Outputs
    ) -> None:
        """Gets a request with its outputs."""

    def close(self) -> None:
        """Ends the observer; called once, in a thread."""


class RowQueue:
    """Chooses rows at random, and holds at most 16 MiB of them.

    Args:
      rate: The share of the rows.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._random = np.random.default_rng()
        self._queue: queue.SimpleQueue[QueuedRows | None] = queue.SimpleQueue()
        self._bytes = 0
        self._lock = threading.Lock()

    def offer(
        self, model: ModelFacts, signature: Signature, inputs: Tensors, outputs: Outputs
    ) -> int:
        """Queues a random part of the rows of a request, without waiting.

        Requests without texts, such as serialized Examples, are ignored.

        Args:
          model: The version that predicted.
          signature: Its signature.
          inputs: The inputs of the request.
          outputs: The outputs to queue with the texts.

        Returns:
          The chosen rows for which the queue had no room.
        """
        columns = model.text_columns
        if not columns or set(columns) != inputs.keys() or not signature.is_by_row:
            return 0
        is_chosen = self._random.random(len(inputs[columns[0]])) < self._rate
        chosen = np.flatnonzero(is_chosen)
        if not chosen.size:
            return 0
        texts = {name: inputs[name][chosen] for name in columns}
        size = _ROW_BYTES * chosen.size
        size += sum(len(text) for column in texts.values() for text in column)
        with self._lock:
            if self._bytes + size > _QUEUED_BYTES:
                return chosen.size
            self._bytes += size
        of_rows = {name: outputs[name][chosen] for name in outputs}
        rows = QueuedRows(time.time(), model, texts, of_rows, chosen.size, size)
        self._queue.put(rows)
        return 0

    def get(self, timeout: float | None = None) -> QueuedRows | None:
        """Returns the next rows, or None after `close`.

        Args:
          timeout: Maximum time to wait in seconds; None waits for ever.

        Raises:
          queue.Empty: There were no rows in that time.
        """
        return self._queue.get(timeout=timeout)

    def release(self, rows: QueuedRows) -> None:
        """Makes room for other rows, once these have been read."""
        with self._lock:
            self._bytes -= rows.size

    def close(self) -> None:
        """Ends the queue after the rows that are in it."""
        self._queue.put(None)
