"""Runs a Beam pipeline to its end, also where a worker of this machine dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import apache_beam as beam
import psutil
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.utils import shared

from pipeline import local
from pipeline.batch_prediction import job as job_lib

# Called with the number of rows so far, as often as the runner tells it.
Progress = Callable[[int], None]

_ATTEMPTS = 3
_POLL_SECONDS = 2.0
_WORKER_DIED = 75  # EX_TEMPFAIL of sysexits.h
# Beam's name of the thread that waits for a worker process.
_WORKER_THREAD = "run_worker"


def run(
    job: job_lib.Job,
    beam_args: Sequence[str],
    *,
    clean: Callable[[], None],
    progress: Progress,
) -> None:
    """Runs a job.

    Runners of a cluster replace a worker that dies. Beam's runner of worker processes
    on this machine does not: it fails, or waits forever for a worker that died before
    its first work. So it gets a process of its own here, which ends with the first
    worker that dies, and the job is run anew.

    Args:
      job: What is predicted.
      beam_args: Beam's pipeline arguments.
      clean: Deletes what an earlier attempt wrote.
      progress: Told how far it is.

    Raises:
      RuntimeError: The pipeline failed, or workers died in each of three attempts.
    """
    options = PipelineOptions(list(beam_args))
    mode = options.view_as(DirectOptions).direct_running_mode
    if mode != "multi_processing":
        clean()
        _run_here(job, beam_args, progress)
        return
    descriptor, log = tempfile.mkstemp(prefix="predict-", suffix=".log")
    os.close(descriptor)
    for _ in range(_ATTEMPTS):
        clean()
        status = _run_apart(job, beam_args, log)
        if status == 0:
            os.remove(log)
            return
        if status not in (_WORKER_DIED, -signal.SIGKILL):
            raise RuntimeError(f"the prediction failed; what Beam said is in {log}")
    raise RuntimeError(
        f"a worker process died in each of {_ATTEMPTS} attempts (log: {log}); where "
        "memory is short, take fewer workers or a smaller --batch-rows"
    )


def _run_here(job: job_lib.Job, beam_args: Sequence[str], progress: Progress) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions(list(beam_args)))
    job_lib.build(pipeline, job)
    result = pipeline.run()
    rows = beam.metrics.MetricsFilter().with_name(job_lib.ROWS_METRIC)
    while not PipelineState.is_terminal(result.state):
        counters = result.metrics().query(rows)["counters"]
        progress(sum(counter.result or 0 for counter in counters))
        time.sleep(_POLL_SECONDS)
    state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise RuntimeError(f"the Beam job ended as {state}; its runner has the log")
    # Beam keeps the last shared object, the model, until the interpreter's end, at
    # which TensorFlow fails to free it. Another takes its place.
    shared.Shared().acquire(_Nothing)


class _Nothing:
    pass


def _run_apart(job: job_lib.Job, beam_args: Sequence[str], log: str) -> int | None:
    process = multiprocessing.get_context("spawn").Process(
        target=_run_in_child, args=(job, beam_args, log)
    )
    process.start()
    try:
        process.join()
    finally:
        _kill_family(process.pid)
    return process.exitcode


def _run_in_child(job: job_lib.Job, beam_args: Sequence[str], log: str) -> None:
    def end(status: int) -> None:
        for worker in psutil.Process().children(recursive=True):
            worker.kill()
        os._exit(status)

    def end_with_worker(failure: threading.ExceptHookArgs) -> None:
        threading.__excepthook__(failure)
        if failure.thread is not None and failure.thread.name == _WORKER_THREAD:
            end(_WORKER_DIED)

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        end(1)

    threading.excepthook = end_with_worker
    threading.Thread(target=end_with_parent, daemon=True).start()
    with local.redirect_output(Path(log)):  # workers say a lot
        _run_here(job, beam_args, progress=lambda rows: None)


def _kill_family(pid: int | None) -> None:
    try:
        family = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    for process in [*family.children(recursive=True), family]:
        process.kill()
