"""Counts empty, cut and unreadable texts of requests, and unknown tokens.

The model's signature `tokenize` reads a random part of the rows a second time: after
their prediction and in a thread, so that no response waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import cast

import numpy as np

from contracts.versions import exported_model
from serving.batching import Outputs
from serving.model_facts import ModelFacts, ServedModel
from serving.monitoring import Metrics
from serving.row_queue import QueuedRows, RowQueue
from serving.signatures import Signature, Tensors

logger = logging.getLogger(__name__)

_UNKNOWN = b"[UNK]"

EMPTY, CUT, UNREADABLE = "empty", "cut", "unreadable"
QUEUE_FULL, FAILED, UNLOADED = "queue_full", "failed", "unloaded"
# The tokens of one call are in memory.
_CALL_ROWS = 64
_CALL_BYTES = 1 << 20
_CLOSE_SECONDS = 1.0


class TextChecks:
    """Checks the texts of a random part of the rows of a server.

    Args:
      rate: The share of the rows.
      metrics: Counts the texts, their faults and tokens.
    """

    def __init__(self, rate: float, metrics: Metrics) -> None:
        self._metrics = metrics
        # From 0, so that Prometheus sees the first one as an increase.
        for reason in (QUEUE_FULL, FAILED, UNLOADED):
            metrics.unchecked_texts.labels(reason)
        self._logged: set[int] = set()
        self._is_closing = False
        self._queue = RowQueue(rate)
        self._thread = threading.Thread(target=self._work, name="checks", daemon=True)
        self._thread.start()

    def offer(
        self, model: ModelFacts, signature: Signature, inputs: Tensors, outputs: Outputs
    ) -> None:
        """Queues a random part of the rows of a request.

        Requests without texts, such as serialized Examples, and models of other
        pipelines are ignored.

        Args:
          model: The version that predicted.
          signature: Its signature.
          inputs: The inputs of the request.
          outputs: The outputs, which are not read.
        """
        del outputs
        # The page sends each text to `tokenize`, too.
        if (
            signature.name == exported_model.TOKENIZE
            or exported_model.TOKENIZE not in model.signatures
        ):
            return
        if lost := self._queue.offer(model, signature, inputs, {}):
            texts = lost * len(inputs)
            self._metrics.unchecked_texts.labels(QUEUE_FULL).inc(texts)

    def close(self) -> None:
        """Drops the queued rows; waits for the running call at most 1 second."""
        self._is_closing = True
        self._queue.close()
        self._thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        while (rows := self._queue.get()) is not None:
            model = cast(ServedModel, rows.model)
            for texts in _pieces(rows):
                if self._is_closing:
                    return
                try:
                    self._check(model, texts)
                except Exception as error:  # noqa: BLE001 (fails no request)
                    self._count_failure(model, texts, error)
            self._queue.release(rows)

    def _check(self, model: ServedModel, texts: dict[str, np.ndarray]) -> None:
        outputs = model.run(exported_model.TOKENIZE, texts)
        columns, cut = outputs[exported_model.COLUMN], outputs[exported_model.CUT]
        is_unknown = outputs[exported_model.TOKEN] == _UNKNOWN
        for index, (name, column) in enumerate(texts.items()):
            is_of_text = columns == index
            tokens = is_of_text.sum(axis=1)
            faults = {
                # As `contracts.row_values.is_empty`: the tokenizer drops all of it.
                EMPTY: (tokens + cut[:, index] == 0).sum(),
                CUT: (cut[:, index] > 0).sum(),
                UNREADABLE: sum(not _is_utf8(text) for text in column),
            }
            for fault, count in faults.items():
                self._metrics.text_faults.labels(name, fault).inc(int(count))
            unknown = (is_unknown & is_of_text).sum()
            self._metrics.checked_tokens.labels(name).inc(int(tokens.sum()))
            self._metrics.unknown_tokens.labels(name).inc(int(unknown))
            self._metrics.checked_texts.labels(name).inc(len(column))

    def _count_failure(
        self, model: ServedModel, texts: dict[str, np.ndarray], error: Exception
    ) -> None:
        count = sum(map(len, texts.values()))
        version = model.version
        if not model.is_alive:
            self._metrics.unchecked_texts.labels(UNLOADED).inc(count)
            return
        self._metrics.unchecked_texts.labels(FAILED).inc(count)
        if version not in self._logged:
            self._logged.add(version)
            # Without the message, which may quote the text.
            logger.warning(
                "version %d: texts are not checked, because %s raises %s. More are "
                'only counted in serving_unchecked_texts_total{reason="%s"}',
                version,
                exported_model.TOKENIZE,
                type(error).__name__,
                FAILED,
            )


def _pieces(rows: QueuedRows) -> Iterator[dict[str, np.ndarray]]:
    """Yields the texts in pieces of some rows; a longer text has one of its own."""
    start = size = 0
    for row in range(rows.rows):
        row_size = sum(len(column[row]) for column in rows.texts.values())
        is_full = row - start == _CALL_ROWS or size + row_size > _CALL_BYTES
        if is_full and row > start:
            yield {name: column[start:row] for name, column in rows.texts.items()}
            start, size = row, 0
        size += row_size
    yield {name: column[start:] for name, column in rows.texts.items()}


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
