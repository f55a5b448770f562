"""Answers concurrent requests together, in a few threads of their own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import grpc
import numpy as np

from serving.errors import RequestError, check_rows
from serving.metrics import Metrics
from serving.signatures import Signature, Tensors

Outputs = dict[str, np.ndarray]


class Runnable(Protocol):
    """What answers; a `Model`."""

    def run(self, signature: str, inputs: Tensors) -> Outputs:
        """Answers inputs that the signature takes."""


@dataclasses.dataclass(frozen=True)
class BatchingSettings:
    """How requests are joined.

    Attributes:
      max_batch_rows: Rows that are run at once, at most. A request of more rows is run
        in pieces.
      timeout_seconds: How long a request waits for others, at most, while a batch is
        running; not at all while none is.
      max_queued_rows: Rows that wait, at most; more are refused.
      threads: Batches that are run at once.
      joins_requests: Whether requests are joined at all.
    """

    max_batch_rows: int = 64
    timeout_seconds: float = 0.002
    max_queued_rows: int = 4096
    threads: int = 2
    joins_requests: bool = True


@dataclasses.dataclass(eq=False)
class _Request:
    """A request, or a piece of one that has more rows than a batch."""

    inputs: Tensors
    rows: int
    answer: asyncio.Future[Outputs] = dataclasses.field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    arrived: float = dataclasses.field(default_factory=time.monotonic)


class _Queue:
    """Requests that one batch can be made of."""

    def __init__(self) -> None:
        self.requests: deque[_Request] = deque()
        self.rows = 0
        self.is_full = asyncio.Event()


class Batcher:
    """Joins requests of a signature on axis 0, runs them once, and splits the answer.

    A batch is run when a thread is free, and either nothing else is running, or it is
    full, or its first request has waited long enough; until then it grows. So a single
    client never waits for others. Lives on one event loop.
    """

    def __init__(self, settings: BatchingSettings, metrics: Metrics) -> None:
        """Starts nothing yet.

        Args:
          settings: How requests are joined.
          metrics: Counts batches and waiting rows.
        """
        self._settings = settings
        self._metrics = metrics
        self._queues: dict[Hashable, _Queue] = {}
        self._queued_rows = 0
        self._threads = ThreadPoolExecutor(settings.threads, "inference")
        self._free_threads = asyncio.Semaphore(settings.threads)
        self._running = 0
        # An event loop holds its tasks weakly.
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(
        self, model: Runnable, signature: Signature, inputs: Tensors
    ) -> Outputs:
        """Answers a request.

        Args:
          model: What answers.
          signature: Of the model.
          inputs: The request's tensors.

        Returns:
          The outputs by name.

        Raises:
          RequestError: The inputs do not fit the signature, too many rows wait, or the
            model cannot predict.
        """
        signature.check(inputs)
        rows = signature.count_rows({name: t.shape for name, t in inputs.items()})
        self._admit(rows)
        # A batch at a time, so that others run in between.
        pieces = [_Request(inputs, rows)]
        if signature.is_by_row and rows > self._settings.max_batch_rows:
            pieces = _cut(inputs, rows, self._settings.max_batch_rows)
        waiting = rows
        try:
            answers = []
            for piece in pieces:
                waiting -= piece.rows
                answers.append(await self._submit(model, signature, piece))
        finally:
            self._count_queued(-waiting)
        if len(pieces) == 1:
            return answers[0]
        joined = _join(answers, [piece.rows for piece in pieces])
        if joined is not None:
            return joined
        self._count_queued(rows)
        return await self._submit(model, signature, _Request(inputs, rows))

    async def _submit(
        self, model: Runnable, signature: Signature, request: _Request
    ) -> Outputs:
        """Puts a request, whose rows are counted, into a queue; returns its outputs."""
        inputs = request.inputs
        shapes = tuple((name, inputs[name].shape[1:]) for name in signature.inputs)
        can_join = signature.is_by_row and self._settings.joins_requests
        # What cannot be joined gets a key that nothing else has.
        key = (model, signature.name, shapes if can_join else object())
        if key not in self._queues:
            self._queues[key] = _Queue()
            self._start(self._collect(key, model, signature.name))
        queue = self._queues[key]
        queue.requests.append(request)
        queue.rows += request.rows
        if not can_join or queue.rows >= self._settings.max_batch_rows:
            queue.is_full.set()
        try:
            return await request.answer
        except asyncio.CancelledError:  # by a client that left, or the deadline
            if request in queue.requests:
                self._remove(queue, request)
            raise

    def _remove(self, queue: _Queue, request: _Request) -> None:
        queue.requests.remove(request)
        queue.rows -= request.rows
        self._count_queued(-request.rows)
        if queue.rows < self._settings.max_batch_rows:
            queue.is_full.clear()

    @property
    def max_rows(self) -> int:
        """The largest number of rows of a request."""
        return self._settings.max_queued_rows

    def _admit(self, rows: int) -> None:
        limit = self._settings.max_queued_rows
        check_rows(rows, limit)
        if self._queued_rows + rows > limit:
            raise RequestError(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "The batch scheduling queue to which this task was submitted is full: "
                f"{self._queued_rows} of {limit} rows (--max-queued-rows) wait",
            )
        self._count_queued(rows)

    async def _collect(self, key: Hashable, model: Runnable, signature: str) -> None:
        """Makes batches of a queue until it is empty."""
        queue = self._queues[key]
        while queue.requests:
            waited = time.monotonic() - queue.requests[0].arrived
            remaining = self._settings.timeout_seconds - waited
            if self._running and remaining > 0 and not queue.is_full.is_set():
                # Those that came by then are enough.
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(queue.is_full.wait(), remaining)
            await self._free_threads.acquire()
            self._running += 1
            batch = self._take(queue)
            self._start(self._run_batch(model, signature, batch))
        del self._queues[key]

    def _take(self, queue: _Queue) -> list[_Request]:
        batch: list[_Request] = []
        rows = 0
        while queue.requests:
            request = queue.requests[0]
            if batch and rows + request.rows > self._settings.max_batch_rows:
                break
            self._remove(queue, request)
            if not request.answer.cancelled():  # by a client that just left
                batch.append(request)
                rows += request.rows
        return batch

    async def _run_batch(
        self, model: Runnable, signature: str, batch: list[_Request]
    ) -> None:
        try:
            if not batch:
                return
            self._metrics.batch_rows.observe(sum(request.rows for request in batch))
            loop = asyncio.get_running_loop()
            with self._metrics.inference_seconds.time():
                answers = await loop.run_in_executor(
                    self._threads, _answer, model, signature, batch
                )
        finally:
            self._running -= 1
            self._free_threads.release()
        for request, answer in zip(batch, answers, strict=True):
            if request.answer.done():
                continue
            if isinstance(answer, Exception):
                request.answer.set_exception(answer)
            else:
                request.answer.set_result(answer)

    def _count_queued(self, rows: int) -> None:
        self._queued_rows += rows
        self._metrics.queued_rows.set(self._queued_rows)

    def _start(self, coroutine) -> None:  # type: ignore[no-untyped-def]
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _answer(
    model: Runnable, signature: str, batch: list[_Request]
) -> list[Outputs | Exception]:
    """Runs in a thread; a request that fails must not fail its neighbours."""
    if len(batch) == 1:
        return [_answer_alone(model, signature, batch[0])]
    try:
        outputs = model.run(signature, _concatenate([each.inputs for each in batch]))
    except Exception:  # noqa: BLE001 (raised again by the one request that fails)
        middle = len(batch) // 2
        halves = (batch[:middle], batch[middle:])
        return [answer for half in halves for answer in _answer(model, signature, half)]
    answers = _split(outputs, [request.rows for request in batch])
    return answers or [_answer_alone(model, signature, request) for request in batch]


def _answer_alone(
    model: Runnable, signature: str, request: _Request
) -> Outputs | Exception:
    try:
        return model.run(signature, request.inputs)
    except Exception as error:  # noqa: BLE001 (raised again where it is waited for)
        return error


def _split(outputs: Outputs, rows: list[int]) -> list[Outputs | Exception] | None:
    """Returns each request's part; None if an output has not a row for each row."""
    if any(value.shape[:1] != (sum(rows),) for value in outputs.values()):
        return None
    ends = np.cumsum(rows)[:-1]
    parts = {name: np.split(value, ends) for name, value in outputs.items()}
    return [
        {name: part[index] for name, part in parts.items()}
        for index in range(len(rows))
    ]


def _cut(inputs: Tensors, rows: int, size: int) -> list[_Request]:
    return [
        _Request(
            {name: tensor[start : start + size] for name, tensor in inputs.items()},
            min(size, rows - start),
        )
        for start in range(0, rows, size)
    ]


def _join(answers: list[Outputs], rows: list[int]) -> Outputs | None:
    """Returns the outputs of pieces as one; None if an output is not by row.

    An output may also have another size in each piece, as of padded tokens.
    """
    shapes = [
        [(size, *value.shape[1:]) for value in answers[0].values()] for size in rows
    ]
    actual = [[value.shape for value in answer.values()] for answer in answers]
    return _concatenate(answers) if actual == shapes else None


def _concatenate(parts: Sequence[Tensors]) -> Outputs:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
