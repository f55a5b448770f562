"""A run on a cluster, from here: how it is named, and how one waits for it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
import warnings
from collections.abc import Callable, Iterator

SUCCEEDED = "SUCCEEDED"
# Kubeflow Pipelines spells CANCELED, Vertex AI CANCELLED.
_ENDED = frozenset({SUCCEEDED, "FAILED", "SKIPPED", "CANCELED", "CANCELLED", "ERROR"})

Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class SubmittedRun:
    """A run that was started.

    Attributes:
      run_id: What the target calls it.
      link: Its page in the target's user interface.
      state: The last state that was seen, as PENDING, RUNNING or SUCCEEDED.
    """

    run_id: str
    link: str
    state: str


class RunFailedError(Exception):
    """A run was started and ended without success.

    Attributes:
      run: The run.
    """

    def __init__(self, run: SubmittedRun, reasons: str = "") -> None:
        super().__init__(
            f"the run ended {run.state}{': ' if reasons else ''}{reasons}; "
            f"its logs are at {run.link}"
        )
        self.run = run


class RunTimeoutError(Exception):
    """A run was started and had not ended when waiting for it did.

    Attributes:
      run: The run, which goes on.
    """

    def __init__(self, run: SubmittedRun, wait_seconds: float) -> None:
        super().__init__(
            f"the run is {run.state} after {wait_seconds:g} s of waiting, and goes on; "
            f"follow it at {run.link}"
        )
        self.run = run


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keeps the clients' warnings and logs from the terminal.

    They tell of Python versions, of connections that are tried again, and (Vertex AI's,
    with a traceback) that whoever starts a pipeline may not look at its bucket, which
    stops nothing. What stops something is raised.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def wait_for_end(
    run: SubmittedRun,
    read_state: Callable[[], str],
    *,
    wait_seconds: float,
    poll_seconds: float,
    report: Report,
) -> SubmittedRun:
    """Waits until a run has ended, however it ended.

    Neither client's own waiting will do: kfp's (2.13) never notices that a run was
    cancelled and turns on the spot when a token is no longer accepted; Vertex AI's has
    no time limit.

    Args:
      run: The run.
      read_state: Asks the target for the state.
      wait_seconds: How long to wait at most; may be infinite.
      poll_seconds: Time between two questions.
      report: Called with every state that is new.

    Raises:
      RunTimeoutError: It has not ended in time.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        state = read_state()
        if state != run.state:
            report(state)
            run = dataclasses.replace(run, state=state)
        if state in _ENDED:
            return run
        left = deadline - time.monotonic()
        if left <= 0:
            raise RunTimeoutError(run, wait_seconds)
        time.sleep(min(poll_seconds, left))
