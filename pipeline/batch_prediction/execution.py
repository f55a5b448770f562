"""Runs the Beam pipeline of a job to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.utils import shared

from pipeline.batch_prediction import job as job_lib

# Called with the number of rows so far, as often as the runner tells it.
Progress = Callable[[int], None]

_POLL_SECONDS = 2.0
_CANCEL_SECONDS = 120.0


def run(job: job_lib.Job, beam_args: Sequence[str], progress: Progress) -> None:
    """Runs a job. If it is interrupted, a remote job is cancelled.

    Args:
      job: What is predicted.
      beam_args: Beam's pipeline arguments.
      progress: Told how far it is.

    Raises:
      RuntimeError: The pipeline failed.
    """
    pipeline = beam.Pipeline(options=PipelineOptions(list(beam_args)))
    job_lib.build(pipeline, job)
    result = pipeline.run()
    rows = beam.metrics.MetricsFilter().with_name(job_lib.ROWS_METRIC)
    try:
        while not PipelineState.is_terminal(result.state):
            counters = result.metrics().query(rows)["counters"]
            progress(sum(counter.result or 0 for counter in counters))
            time.sleep(_POLL_SECONDS)
        state = result.wait_until_finish()
    except BaseException:
        _cancel(result)
        raise
    if state != PipelineState.DONE:
        raise RuntimeError(f"the Beam job ended as {state}; its runner has the log")
    # Beam keeps the last shared object, the model, until the interpreter's end, at
    # which TensorFlow fails to free it. Another takes its place.
    shared.Shared().acquire(_Nothing)


def _cancel(result: Any) -> None:
    """Cancels a remote job. Its files are deleted next, so its workers must end."""
    if PipelineState.is_terminal(result.state):
        return
    result.cancel()
    deadline = time.monotonic() + _CANCEL_SECONDS
    while not PipelineState.is_terminal(result.state) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


class _Nothing:
    pass
