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

from pipeline.exit_status import FAILURE, USAGE
from pipeline.orchestrators import run_files

# States of runs and tasks that both orchestrators have.
PENDING = "PENDING"
SUCCEEDED = "SUCCEEDED"
FAILED = "FAILED"
# Kubeflow Pipelines spells CANCELED, Vertex AI CANCELLED.
_ENDED = frozenset({SUCCEEDED, FAILED, "SKIPPED", "CANCELED", "CANCELLED", "ERROR"})


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """A run to start.

    The experiment is created if it does not exist. For it, and for the account that the
    run's containers use, None is the orchestrator's default.
    """

    pipeline_name: str
    run_name: str
    pipeline_root: str
    parameters: Mapping[str, Any]
    experiment: str | None = None
    service_account: str | None = None


class RunClient(abc.ABC):
    """A client of an orchestrator, for one run.

    Attributes:
      poll_seconds: Time between two requests for the run's state.
      run_id: The orchestrator's ID of the run, once it is started.
      directory: The run's directory in the pipeline root.
      link: The run's page in the orchestrator's user interface.
      state: Last known state, such as PENDING, RUNNING or SUCCEEDED.
    """

    poll_seconds: ClassVar[float]
    run_id: str
    directory: str
    link: str
    state: str

    @abc.abstractmethod
    def clear_errors(self) -> contextlib.AbstractContextManager[None]:
        """Turns the client library's errors into `UsageError`s."""

    @abc.abstractmethod
    def start(self, package: Path, request: RunRequest) -> None:
        """Starts a run of a pipeline spec in YAML, and sets the attributes.

        Raises:
          UsageError: The orchestrator is unreachable or refuses the request.
        """

    @abc.abstractmethod
    def read_state(self) -> str:
        """Returns the current state of the run that was started."""

    @abc.abstractmethod
    def explain_failure(self) -> tuple[str, set[int]]:
        """Returns why the run failed, and the exit statuses of the failed components.

        The text has the messages of the run and its components. An unknown status is
        `FAILURE`.
        """

    def missing_results(self) -> str:
        """Returns the results that Report could not write; "" if it wrote all."""
        try:
            missing = run_files.find_missing_results(self.directory)
        except run_files.UnreadableError as error:
            return f"the run succeeded; whether it has a report is unknown: {error}"
        return f"the run succeeded; missing: {missing}" if missing else ""


class RunFailedError(Exception):
    """A run ended without success.

    Attributes:
      exit_status: That of a command that waited for it: `USAGE` if settings or data
        were refused, and nothing else failed.
    """

    def __init__(self, client: RunClient) -> None:
        reasons, statuses = client.explain_failure()
        self.exit_status = USAGE if statuses == {USAGE} else FAILURE
        separator = "\n" if "\n" in reasons else "; "
        super().__init__(
            f"the run ended {client.state}{': ' if reasons else ''}{reasons}{separator}"
            f"its logs are at {client.link}"
        )


class RunTimeoutError(Exception):
    """A run has not ended within the time to wait, and is still running.

    Attributes:
      exit_status: That of a command that waited for it.
    """

    exit_status = FAILURE

    def __init__(self, client: RunClient, wait_seconds: float) -> None:
        super().__init__(
            f"the run is still {client.state} after {wait_seconds:g} s of waiting; "
            f"follow it at {client.link}"
        )


def submit(
    client: RunClient,
    package: Path,
    request: RunRequest,
    report: Callable[[str], None],
    wait_seconds: float | None = None,
) -> None:
    """Starts a run of a pipeline spec in YAML, and may wait for its end.

    `report` is called with the run's link, each new state, and the missing results of a
    successful run. If `wait_seconds` is None, it does not wait.

    Raises:
      UsageError: The orchestrator is unreachable or refuses the request.
      RunFailedError: The run ended without success.
      RunTimeoutError: The run has not ended in time.
    """
    with quiet_libraries(), client.clear_errors():
        client.start(package, request)
        report(f"run {request.run_name} started: {client.link}")
        if wait_seconds is None:
            return
        _wait(client, wait_seconds, report)
        if client.state != SUCCEEDED:
            raise RunFailedError(client)
        missing = client.missing_results()
        if missing:
            report(missing)


def _wait(
    client: RunClient, wait_seconds: float, report: Callable[[str], None]
) -> None:
    """Waits until a run has ended, with or without success.

    The clients' own functions do not fit: kfp's (2.13) does not end for a cancelled
    run and retries in a busy loop once a token has expired; Vertex AI's has no timeout.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        state = client.read_state()
        if state != client.state:
            report(state)
            client.state = state
        if state in _ENDED:
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise RunTimeoutError(client, wait_seconds)
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
