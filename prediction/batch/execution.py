"""Runs the Beam pipeline of a job to its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.utils import shared

from prediction.batch import job as job_lib

# Called with the number of rows so far, whenever the runner reports it.
Progress = Callable[[int], None]

_LOGGER = logging.getLogger(__name__)
_POLL_SECONDS = 2.0  # at most
_CANCEL_SECONDS = 120.0


def run(
    job: job_lib.Job,
    beam_args: Sequence[str],
    progress: Progress,
    keep_files: Callable[[], object],
) -> None:
    """Runs a job. If it is interrupted, a remote job is cancelled.

    Args:
      job: The job.
      beam_args: Beam's pipeline arguments.
      progress: Called with the rows so far.
      keep_files: Called if a remote job cannot be cancelled. Its workers may still
        write files, so the caller must not delete them.

    Raises:
      RuntimeError: The pipeline failed.
    """
    pipeline = beam.Pipeline(options=PipelineOptions(list(beam_args)))
    job_lib.build(pipeline, job)
    result = pipeline.run()
    rows = beam.metrics.MetricsFilter().with_name(job_lib.ROWS_METRIC)
    try:
        pause = 0.1  # a small job ends soon
        while not PipelineState.is_terminal(result.state):
            counters = result.metrics().query(rows)["counters"]
            progress(sum(counter.result or 0 for counter in counters))
            time.sleep(pause)
            pause = min(2 * pause, _POLL_SECONDS)
        state = result.wait_until_finish()
    except BaseException:
        has_ended = False
        try:
            has_ended = _cancel(result)
        finally:  # also if a second Ctrl-C interrupts `_cancel`
            if not has_ended:
                keep_files()
                _log_running(result, job)
        raise
    if state != PipelineState.DONE:
        raise RuntimeError(f"the Beam job ended as {state}; its runner has the log")
    # Beam keeps the last shared object, the model, until the interpreter exits. Then
    # TensorFlow fails to free it. A new shared object replaces it.
    shared.Shared().acquire(_Nothing)


def _cancel(result: Any) -> bool:
    """Cancels a remote job.

    Returns:
      Whether the job has ended. Only then may its files be deleted.
    """
    if _has_ended(result):
        return True
    try:
        result.cancel()
    except Exception:
        _LOGGER.warning("the Beam job was not cancelled", exc_info=True)
    deadline = time.monotonic() + _CANCEL_SECONDS
    while not _has_ended(result):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _has_ended(result: Any) -> bool:
    try:
        return PipelineState.is_terminal(result.state)
    except Exception as error:  # noqa: BLE001 (it is requested again)
        _LOGGER.warning("the state of the Beam job is unavailable: %s", error)
        return False


def _log_running(result: Any, job: job_lib.Job) -> None:
    # Dataflow has a method for it, the portable runner only an attribute.
    job_id = getattr(result, "job_id", lambda: getattr(result, "_job_id", ""))()
    _LOGGER.error(
        "the Beam job %s may still run and write files, so none are deleted. Cancel "
        "the job with the tools of its runner and wait until it has ended. Then delete "
        "%s. Until then, predict to another directory",
        job_id,
        f"{job.directory}/*{job.suffix}*" if job.suffix else job.directory,
    )


class _Nothing:
    pass
