"""Keeps a sample of texts and predictions as TFRecords of `tf.train.Example`.

A request only puts rows into a queue; a thread redacts and writes them. A file appears
under its name once it is complete. What cannot be kept is counted, and fails no
request.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from serving import example_records
from serving.batching import Outputs
from serving.example_records import FRAME_BYTES
from serving.model_facts import ModelFacts
from serving.monitoring import Metrics
from serving.row_queue import QueuedRows, RowQueue
from serving.settings import SamplingSettings
from serving.signatures import Signature, Tensors

logger = logging.getLogger(__name__)

FILES = "sample-*.tfrecord"
"""Pattern of the files; their names sort by time."""

# Features of a row besides its texts. No text column can have such a name by accident.
PREFIX = "prediction/"
MODEL_VERSION = f"{PREFIX}model_version"
TIME = f"{PREFIX}time"
# The outputs that are kept, if the model has them; `prediction/class` and so on.
OUTPUTS = ("class", "labels", "probabilities", "score")

WRITTEN, REDACTED = "written", "redacted"
QUEUE_FULL, REDACTION_FAILED, WRITE_FAILED = (
    "queue_full",
    "redaction_failed",
    "write_failed",
)
_INCOMPLETE = ".incomplete-"
_MAX_FILE_BYTES = 16 << 20  # the rows of a file are in memory until it is written
CLOSE_SECONDS = 10.0  # to write the queued rows
_FILES_AT_THE_BOUND = 8
_ABANDONED_SECONDS = 3600


class Sampler:
    """Writes a sample of the rows of a server.

    Args:
      settings: Settings.
      metrics: Counts the rows by result.
    """

    def __init__(self, settings: SamplingSettings, metrics: Metrics) -> None:
        self._settings = settings
        self._samples = {
            result: metrics.samples.labels(result)
            for result in (
                *(WRITTEN, REDACTED),
                *(QUEUE_FULL, REDACTION_FAILED, WRITE_FAILED),
            )
        }
        self._logged: set[str] = set()
        self._queue = RowQueue(settings.rate)
        self._delete_abandoned()
        self._thread = threading.Thread(target=self._work, name="sampler", daemon=True)
        self._thread.start()

    def offer(
        self, model: ModelFacts, signature: Signature, inputs: Tensors, outputs: Outputs
    ) -> None:
        """Queues a random part of the rows of a request.

        Requests without texts, such as serialized Examples, and signatures that predict
        nothing, such as `tokenize`, are ignored.

        Args:
          model: The version that predicted.
          signature: Its signature.
          inputs: The inputs of the request.
          outputs: The outputs.
        """
        kept = {name: outputs[name] for name in OUTPUTS if name in outputs}
        if not kept:
            return
        if lost := self._queue.offer(model, signature, inputs, kept):
            self._count(QUEUE_FULL, lost, "the queue is full")

    def close(self) -> None:
        """Writes the queued rows; waits for that at most 10 seconds."""
        self._queue.close()
        self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        file_bytes = self._settings.max_bytes // _FILES_AT_THE_BOUND
        file_bytes = min(file_bytes, _MAX_FILE_BYTES)
        records: list[bytes] = []
        size = 0
        deadline = 0.0  # to write the records
        while True:
            timeout = max(0.0, deadline - time.monotonic()) if records else None
            try:
                queued = self._queue.get(timeout)
            except queue.Empty:
                queued = None
            else:
                if queued is None:
                    self._write(records)
                    return
            if queued is not None:
                for record in self._serialize(queued):
                    if records and size + len(record) + FRAME_BYTES > file_bytes:
                        self._write(records)
                        records, size = [], 0
                    if not records:
                        deadline = time.monotonic() + self._settings.file_seconds
                    records.append(record)
                    size += len(record) + FRAME_BYTES
                self._queue.release(queued)
            if records and time.monotonic() >= deadline:
                self._write(records)
                records, size = [], 0

    def _serialize(self, queued: QueuedRows) -> Iterator[bytes]:
        outputs = {f"{PREFIX}{name}": queued.outputs[name] for name in queued.outputs}
        columns = {**queued.texts, **outputs}
        for index in range(queued.rows):
            row: dict[str, Any] = {
                **{name: _plain(columns[name][index]) for name in columns},
                MODEL_VERSION: queued.model.version,
                TIME: int(queued.time),
            }
            try:
                redact = self._settings.redact
                kept = row if redact is None else redact(row)
                record = None if kept is None else example_records.encode_example(kept)
            except (Exception, SystemExit) as error:  # noqa: BLE001 (the user's code)
                # Without the message, which may quote the text.
                reason = f"--redact raises {type(error).__name__}"
                self._count(REDACTION_FAILED, 1, reason)
            else:
                if record is None:
                    self._samples[REDACTED].inc()
                else:
                    yield record

    def _write(self, records: Sequence[bytes]) -> None:
        """Writes a file, after deleting the oldest ones that exceed the bound."""
        if not records:
            return
        directory = self._settings.directory
        try:
            self._make_room(sum(len(record) + FRAME_BYTES for record in records))
            # Only the user of the server can read such a file.
            handle, path = tempfile.mkstemp(prefix=_INCOMPLETE, dir=directory)
            try:
                with open(handle, "wb") as file:
                    file.writelines(map(example_records.encode_record, records))
                name = FILES.replace("*", f"{time.time_ns():020}-{uuid.uuid4().hex}")
                os.rename(path, directory / name)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                raise
        except OSError as error:
            self._count(WRITE_FAILED, len(records), f"{directory}: {error}")
        else:
            self._samples[WRITTEN].inc(len(records))

    def _make_room(self, size: int) -> None:
        if size > self._settings.max_bytes:
            raise OSError(f"a row of {size} bytes exceeds --sample-mib")
        files = sorted(self._settings.directory.glob(FILES))
        total = size + sum(map(_file_size, files))
        for path in files:
            if total <= self._settings.max_bytes:
                return
            total -= _file_size(path)
            path.unlink(missing_ok=True)  # another server may share the directory

    def _delete_abandoned(self) -> None:
        """Deletes the incomplete files of servers that were killed."""
        for path in self._settings.directory.glob(f"{_INCOMPLETE}*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    path.unlink()

    def _count(self, result: str, rows: int, problem: str) -> None:
        self._samples[result].inc(rows)
        if result not in self._logged:
            self._logged.add(result)
            logger.warning(
                "sampled rows are lost: %s. More are only counted in "
                'serving_samples_total{result="%s"}',
                problem,
                result,
            )


def _plain(value: Any) -> Any:
    """Returns a value of a tensor as the redaction hook gets it; text as `str`."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
