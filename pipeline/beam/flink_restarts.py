"""Flink's restart strategy, which decides whether a job survives a lost worker.

Beam's batch jobs on Flink do not have one: `createBatchExecutionEnvironment` of
`FlinkExecutionEnvironments` ignores `number_of_execution_retries`. The one that counts
is the cluster's.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

_TYPE = "restart-strategy.type"
_OLD_TYPE = "restart-strategy"  # before Flink 1.18, and still read
_NONE = ("none", "off", "disable", "disabled")
_SECONDS = 10.0
_ATTEMPTS = 2  # of a loss


def settings(restarts: int, backoff_seconds: int = 20) -> dict[str, str]:
    """Returns Flink's settings that survive the loss of workers.

    A lost TaskManager fails each region of the job that it ran, 15 within 75 ms in
    Transform. `exponential-delay` counts the failures of a backoff as one (FLIP-364, in
    Flink 1.19), `fixed-delay` each. Until Flink notices the loss, by default after two
    failed heartbeats, it starts tasks on the lost TaskManager again: 20 s later it
    mostly has, and a loss uses two attempts at most.

    Args:
      restarts: How many losses a job survives.
      backoff_seconds: Time between a failure and the restart.
    """
    if not restarts:
        return {_TYPE: _NONE[0]}
    prefix = "restart-strategy.exponential-delay"
    return {
        _TYPE: "exponential-delay",
        f"{prefix}.initial-backoff": f"{backoff_seconds} s",
        f"{prefix}.max-backoff": f"{backoff_seconds} s",
        f"{prefix}.attempts-before-reset-backoff": str(_ATTEMPTS * restarts),
    }


def write_settings(directory: Path, restarts: int) -> None:
    """Writes the settings of a Flink that a job server starts for a job."""
    # It loses no TaskManager, only workers.
    pairs = settings(restarts, backoff_seconds=1).items()
    # Beam looks for this name; `config.yaml` of Flink 1.19 is ignored.
    file = directory / "flink-conf.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in pairs))


def advise(master: str, restarts: int) -> str | None:
    """Returns what to set on a cluster that repeats no lost work; None if it does.

    Args:
      master: `HOST:PORT` of the REST API, or its URL.
      restarts: `beam.restarts`.

    Raises:
      ConnectionError: The cluster does not respond.
    """
    url = master if "://" in master else f"http://{master}"
    try:
        path = f"{url}/jobmanager/config"
        with urllib.request.urlopen(path, timeout=_SECONDS) as response:
            config = {entry["key"]: entry["value"] for entry in json.load(response)}
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"beam.master {master}: no Flink responds there ({error}); give HOST:PORT "
            "of the JobManager's REST API, 8081 by default"
        ) from error
    if not restarts or config.get(_TYPE, config.get(_OLD_TYPE, "none")) not in _NONE:
        return None
    lines = ", ".join(f"{key}: {value}" for key, value in settings(restarts).items())
    return (
        f"beam.restarts is {restarts}, but the Flink cluster {master} repeats no lost "
        f"work: set {lines} in its config.yaml and restart it, or set beam.restarts=0"
    )
