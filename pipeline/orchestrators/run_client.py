"""Starts a compiled pipeline on an orchestrator, and waits for the end of the run."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

_SUCCEEDED = "SUCCEEDED"
# Kubeflow Pipelines spells CANCELED, Vertex AI CANCELLED.
_ENDED = frozenset({_SUCCEEDED, "FAILED", "SKIPPED", "CANCELED", "CANCELLED", "ERROR"})


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """A run to start.

    Attributes:
      pipeline_name: Name of the pipeline.
      run_name: Name of the run.
      pipeline_root: Where components write.
      parameters: Values of the run's parameters.
      experiment: Experiment of the run, created if it does not exist; None is the
        orchestrator's default.
      service_account: Account that the run's containers use; None is the
        orchestrator's default.
    """

    pipeline_name: str
    run_name: str
    pipeline_root: str
    parameters: Mapping[str, Any]
    experiment: str | None = None
    service_account: str | None = None


@dataclasses.dataclass(frozen=True)
class SubmittedRun:
    """A run that was started.

    Attributes:
      run_id: The orchestrator's ID of it.
      link: Its page in the orchestrator's user interface.
      state: Last known state, as PENDING, RUNNING or SUCCEEDED.
    """

    run_id: str
    link: str
    state: str


class RunClient(abc.ABC):
    """A client of an orchestrator, for one run.

    Attributes:
      poll_seconds: Time between two requests for the run's state.
    """

    poll_seconds: ClassVar[float]

    @abc.abstractmethod
    def clear_errors(self) -> contextlib.AbstractContextManager[None]:
        """Turns the client library's errors into `UsageError`s."""

    @abc.abstractmethod
    def start(self, package: Path, request: RunRequest) -> SubmittedRun:
        """Starts a run.

        Args:
          package: File with the compiled pipeline, a pipeline spec in YAML.
          request: The run.

        Raises:
          UsageError: The orchestrator is unreachable or refuses the request.
        """

    @abc.abstractmethod
    def read_state(self) -> str:
        """Returns the current state of the run that was started."""

    @abc.abstractmethod
    def failure_reasons(self) -> str:
        """Returns the messages of the run and its failed tasks, as last read."""


class RunFailedError(Exception):
    """A run ended without success."""

    def __init__(self, run: SubmittedRun, reasons: str = "") -> None:
        super().__init__(
            f"the run ended {run.state}{': ' if reasons else ''}{reasons}; "
            f"its logs are at {run.link}"
        )


class RunTimeoutError(Exception):
    """A run has not ended within the time to wait, and goes on."""

    def __init__(self, run: SubmittedRun, wait_seconds: float) -> None:
        super().__init__(
            f"the run is {run.state} after {wait_seconds:g} s of waiting, and goes on; "
            f"follow it at {run.link}"
        )


def submit(
    client: RunClient,
    package: Path,
    request: RunRequest,
    report: Callable[[str], None],
    wait_seconds: float | None = None,
) -> SubmittedRun:
    """Starts a run, and waits for its end if that is requested.

    Args:
      client: Client of the orchestrator.
      package: File with the compiled pipeline, a pipeline spec in YAML.
      request: The run.
      report: Called with the run's link and with each new state.
      wait_seconds: Longest time to wait; None does not wait.

    Raises:
      UsageError: The orchestrator is unreachable or refuses the request.
      RunFailedError: The run ended without success.
      RunTimeoutError: The run has not ended in time.
    """
    with quiet_libraries(), client.clear_errors():
        run = client.start(package, request)
        report(f"run {request.run_name} started: {run.link}")
        if wait_seconds is None:
            return run
        run = _wait(client, run, wait_seconds, report)
    if run.state != _SUCCEEDED:
        raise RunFailedError(run, client.failure_reasons())
    return run


def _wait(
    client: RunClient,
    run: SubmittedRun,
    wait_seconds: float,
    report: Callable[[str], None],
) -> SubmittedRun:
    """Waits until a run has ended, with or without success.

    The clients' own functions do not fit: kfp's (2.13) does not end for a cancelled
    run and retries in a busy loop once a token has expired; Vertex AI's has no timeout.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        state = client.read_state()
        if state != run.state:
            report(state)
            run = dataclasses.replace(run, state=state)
        if state in _ENDED:
            return run
        left = deadline - time.monotonic()
        if left <= 0:
            raise RunTimeoutError(run, wait_seconds)
        time.sleep(min(client.poll_seconds, left))


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Hides the logs and warnings of the client libraries; their errors are raised.

    They warn about Python versions and retried connections. Vertex AI's also logs a
    traceback if the user may start a pipeline but not read its bucket.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
