"""Joins concurrent requests into batches, and runs them in threads."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Coroutine, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from serving.errors import Code, RequestError, check_rows
from serving.monitoring import Metrics
from serving.signatures import Signature, Tensors

Outputs = dict[str, np.ndarray]

_BYTES_PER_TOKEN = 4  # in English text; MRPC has 4.1
_MAX_TOKENS = 512  # per row: BERT's limit; a model truncates longer texts


class Runnable(Protocol):
    """The part of `ServedModel` that the batcher uses."""

    def run(self, signature: str, inputs: Tensors) -> Outputs:
        """Runs a signature."""


@dataclasses.dataclass(frozen=True)
class BatchingSettings:
    """Settings of the batcher.

    Attributes:
      max_batch_rows: Maximum rows of a batch. A larger request is run in pieces.
      max_batch_tokens: Maximum tokens of a batch, by `estimate_tokens`. A larger
        request is run in pieces of at least one row.
      timeout_seconds: Maximum time that a request waits for others while a batch is
        running. If none is running, it does not wait.
      max_queued_rows: Maximum rows that wait; more are refused.
      threads: Batches that run at the same time.
      joins_requests: Whether requests are joined.
    """

    max_batch_rows: int = 64
    max_batch_tokens: int = 4096
    timeout_seconds: float = 0.002
    max_queued_rows: int = 4096
    threads: int = 2
    joins_requests: bool = True


@dataclasses.dataclass(eq=False)
class _Request:
    """A request, or a piece of one that is larger than a batch."""

    inputs: Tensors
    rows: int
    tokens: int
    outputs: asyncio.Future[Outputs] = dataclasses.field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    arrived: float = dataclasses.field(default_factory=time.monotonic)


class _Queue:
    """Requests that can be joined."""

    def __init__(self) -> None:
        self.requests: deque[_Request] = deque()
        self.rows = 0
        self.tokens = 0
        self.is_full = asyncio.Event()


class Batcher:
    """Joins requests of a signature on axis 0, runs the batch, and splits the outputs.

    A batch runs as soon as a thread is free and nothing else is running, the batch is
    full, or its first request has waited long enough. So a single client never waits
    for others. Use it on one event loop only.

    Args:
      settings: Settings.
      metrics: Counts batches and waiting rows.
    """

    def __init__(self, settings: BatchingSettings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._queues: dict[Hashable, _Queue] = {}
        self._queued_rows = 0
        self._threads = ThreadPoolExecutor(settings.threads, "inference")
        self._free_threads = asyncio.Semaphore(settings.threads)
        self._running = 0
        # An event loop has only weak references to its tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def max_rows(self) -> int:
        """The maximum rows of a request."""
        return self._settings.max_queued_rows

    async def run(
        self, model: Runnable, signature: Signature, inputs: Tensors
    ) -> Outputs:
        """Runs a request.

        Args:
          model: The model.
          signature: A signature of the model.
          inputs: The request's tensors.

        Returns:
          The outputs by name.

        Raises:
          RequestError: The inputs do not fit the signature, too many rows wait, or the
            model fails.
        """
        rows = signature.check({name: (t.dtype, t.shape) for name, t in inputs.items()})
        check_rows(rows, self.max_rows)
        if self._queued_rows + rows > self.max_rows:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                got=f"the queue is full: {self._queued_rows} of {self.max_rows} rows "
                "(the server's --max-queued-rows) wait",
                advice="try again later",
            )
        self._count_queued(rows)
        waiting = rows
        try:
            tokens = estimate_tokens(inputs, rows)
            whole = _Request(inputs, rows, int(tokens.sum()))
            is_cut = signature.is_by_row and not self._fits(rows, whole.tokens)
            pieces = self._cut(inputs, tokens) if is_cut else [whole]
            outputs = []
            for piece in pieces:  # one at a time, so that other requests run between
                waiting -= piece.rows
                outputs.append(await self._submit(model, signature, piece))
        finally:
            self._count_queued(-waiting)
        if len(pieces) == 1:
            return outputs[0]
        shapes = [[value.shape for value in piece.values()] for piece in outputs]
        by_row = [
            [(piece.rows, *value.shape[1:]) for value in outputs[0].values()]
            for piece in pieces
        ]
        if shapes == by_row:
            return _concatenate(outputs)
        # The pieces cannot be joined: an output is not by row, or its other sizes
        # differ, such as padded tokens.
        self._count_queued(rows)
        return await self._submit(model, signature, whole)

    def _fits(self, rows: int, tokens: int) -> bool:
        """Returns whether a batch may have this many rows and tokens."""
        settings = self._settings
        return rows <= settings.max_batch_rows and tokens <= settings.max_batch_tokens

    def _is_full(self, queue: _Queue) -> bool:
        # The next request has at least one row and one token.
        return not self._fits(queue.rows + 1, queue.tokens + 1)

    def _cut(self, inputs: Tensors, tokens: np.ndarray) -> list[_Request]:
        """Cuts a request of `tokens` int64[rows] into pieces that fit."""
        starts, rows, sum_of_tokens = [0], 0, 0
        for index, row_tokens in enumerate(tokens.tolist()):
            if rows and not self._fits(rows + 1, sum_of_tokens + row_tokens):
                starts.append(index)
                rows, sum_of_tokens = 0, 0
            rows, sum_of_tokens = rows + 1, sum_of_tokens + row_tokens
        return [
            _Request(
                {name: tensor[start:end] for name, tensor in inputs.items()},
                end - start,
                int(tokens[start:end].sum()),
            )
            for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True)
        ]

    async def _submit(
        self, model: Runnable, signature: Signature, request: _Request
    ) -> Outputs:
        """Queues a request, whose rows are already counted, and returns its outputs."""
        inputs = request.inputs
        shapes = tuple((name, inputs[name].shape[1:]) for name in signature.inputs)
        can_join = signature.is_by_row and self._settings.joins_requests
        # A request that cannot be joined gets a unique key.
        key = (model, signature.name, shapes if can_join else object())
        if key not in self._queues:
            self._queues[key] = _Queue()
            self._start(self._run_queue(key, model, signature.name))
        queue = self._queues[key]
        queue.requests.append(request)
        queue.rows += request.rows
        queue.tokens += request.tokens
        if not can_join or self._is_full(queue):
            queue.is_full.set()
        try:
            return await request.outputs
        except asyncio.CancelledError:  # the client left, or the deadline passed
            if request in queue.requests:
                self._remove(queue, request)
            raise

    def _remove(self, queue: _Queue, request: _Request) -> None:
        queue.requests.remove(request)
        queue.rows -= request.rows
        queue.tokens -= request.tokens
        self._count_queued(-request.rows)
        if not self._is_full(queue):
            queue.is_full.clear()

    async def _run_queue(self, key: Hashable, model: Runnable, signature: str) -> None:
        """Runs batches of a queue until it is empty."""
        queue = self._queues[key]
        while queue.requests:
            waited = time.monotonic() - queue.requests[0].arrived
            remaining = self._settings.timeout_seconds - waited
            if self._running and remaining > 0 and not queue.is_full.is_set():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(queue.is_full.wait(), remaining)
            await self._free_threads.acquire()
            self._running += 1
            self._start(self._run_batch(model, signature, self._take_batch(queue)))
        del self._queues[key]

    def _take_batch(self, queue: _Queue) -> list[_Request]:
        batch: list[_Request] = []
        rows, tokens = 0, 0
        while queue.requests:
            request = queue.requests[0]
            if batch and not self._fits(rows + request.rows, tokens + request.tokens):
                break
            self._remove(queue, request)
            if not request.outputs.cancelled():
                batch.append(request)
                rows, tokens = rows + request.rows, tokens + request.tokens
        return batch

    async def _run_batch(
        self, model: Runnable, signature: str, batch: list[_Request]
    ) -> None:
        try:
            if not batch:
                return
            self._metrics.batch_rows.observe(sum(request.rows for request in batch))
            self._metrics.batch_tokens.observe(sum(request.tokens for request in batch))
            loop = asyncio.get_running_loop()
            with self._metrics.inference_seconds.time():
                results = await loop.run_in_executor(
                    self._threads, _run_joined, model, signature, batch
                )
        finally:
            self._running -= 1
            self._free_threads.release()
        for request, result in zip(batch, results, strict=True):
            if request.outputs.done():
                continue
            if isinstance(result, Exception):
                request.outputs.set_exception(result)
            else:
                request.outputs.set_result(result)

    def _count_queued(self, rows: int) -> None:
        self._queued_rows += rows
        self._metrics.queued_rows.set(self._queued_rows)

    def _start(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def estimate_tokens(inputs: Tensors, rows: int) -> np.ndarray:
    """Estimates the tokens of each row, int64[rows], from the bytes of its texts.

    A number counts as a token.

    Args:
      inputs: The request's tensors.
      rows: Its rows. Tensors with a different size of axis 0 are not counted.
    """
    tokens = np.zeros(rows, np.int64)
    for tensor in inputs.values():
        if tensor.shape[:1] != (rows,):
            continue
        values = tensor.reshape(rows, tensor.size // max(rows, 1))
        if tensor.dtype.kind == "O":
            sizes = (sum(map(len, row)) for row in values)
            tokens += np.fromiter(sizes, np.int64, rows) // _BYTES_PER_TOKEN + 1
        else:
            tokens += values.shape[1]
    return np.minimum(tokens, _MAX_TOKENS)


def _run_joined(
    model: Runnable, signature: str, batch: list[_Request]
) -> list[Outputs | Exception]:
    """Runs a batch; if it fails, runs its halves, so that only bad requests fail."""
    if len(batch) == 1:
        return [_run_alone(model, signature, batch[0])]
    try:
        joined = _concatenate([request.inputs for request in batch])
        outputs = model.run(signature, joined)
    except Exception:  # noqa: BLE001 (a request that fails alone gets its error)
        middle = len(batch) // 2
        return [
            *_run_joined(model, signature, batch[:middle]),
            *_run_joined(model, signature, batch[middle:]),
        ]
    rows = [request.rows for request in batch]
    if any(value.shape[:1] != (sum(rows),) for value in outputs.values()):
        # An output is not by row, so it cannot be split.
        return [_run_alone(model, signature, request) for request in batch]
    ends = np.cumsum(rows)[:-1]
    parts = {name: np.split(value, ends) for name, value in outputs.items()}
    return [
        {name: part[index] for name, part in parts.items()}
        for index in range(len(batch))
    ]


def _run_alone(
    model: Runnable, signature: str, request: _Request
) -> Outputs | Exception:
    try:
        return model.run(signature, request.inputs)
    except Exception as error:  # noqa: BLE001 (the request's future raises it)
        return error


def _concatenate(parts: Sequence[Tensors]) -> Outputs:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
