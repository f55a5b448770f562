"""Flink's restart strategy, which decides whether a job survives a lost worker.

Beam's batch jobs on Flink do not have one: `createBatchExecutionEnvironment` of
`FlinkExecutionEnvironments` ignores `number_of_execution_retries`. The one that counts
is the cluster's.
"""

from __future__ import annotations

import http.client
import json
import urllib.request
from pathlib import Path

_TYPE = "restart-strategy.type"
_OLD_TYPE = "restart-strategy"  # before Flink 1.18, and still read
_NONE = ("none", "off", "disable", "disabled")
_SECONDS = 10.0
_ATTEMPTS = 2  # of a loss
_REGIONS = 20  # that a loss fails: 15 to 19 in Transform
# The setting of each strategy that limits its attempts, its default, and the attempts
# that one loss uses.
_LIMITS = {
    "exponential-delay": ("attempts-before-reset-backoff", None, _ATTEMPTS),
    "fixed-delay": ("attempts", "1", _REGIONS),
    "failure-rate": ("max-failures-per-interval", "1", _REGIONS),
}


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
    """Returns what to set on a cluster that repeats too little lost work.

    Args:
      master: `HOST:PORT` of the REST API, or its URL.
      restarts: `beam.restarts`.

    Returns:
      One line, or None if the cluster survives so many losses.

    Raises:
      ConnectionError: The cluster does not respond.
    """
    config = _read_settings(master)
    problem = _find_problem(config, restarts) if restarts else None
    if problem is None:
        return None
    lines = ", ".join(f"{key}: {value}" for key, value in settings(restarts).items())
    return (
        f"beam.restarts is {restarts}, but the Flink cluster {master} {problem}: set "
        f"{lines} in its config.yaml and restart it, or set beam.restarts=0"
    )


def _read_settings(master: str) -> dict[str, str]:
    """Returns the settings of a cluster."""
    url = master if "://" in master else f"http://{master}"
    try:
        path = f"{url}/jobmanager/config"
        with urllib.request.urlopen(path, timeout=_SECONDS) as response:
            return {entry["key"]: entry["value"] for entry in json.load(response)}
    # Of another service, the response may be anything.
    except (
        OSError,
        http.client.HTTPException,
        ValueError,
        TypeError,
        KeyError,
    ) as error:
        raise ConnectionError(
            f"beam.master {master}: no Flink responds there ({error}); give HOST:PORT "
            "of the JobManager's REST API, 8081 by default"
        ) from error


def _find_problem(config: dict[str, str], restarts: int) -> str | None:
    """Returns why a cluster does not survive so many losses, or None."""
    strategy = config.get(_TYPE, config.get(_OLD_TYPE, "none")).lower()
    if strategy in _NONE:
        return "repeats no lost work"
    if strategy not in _LIMITS:  # a class of the user's own
        return None
    name, default, per_loss = _LIMITS[strategy]
    key = f"restart-strategy.{strategy}.{name}"
    attempts = config.get(key, default)
    if attempts is None or int(attempts) >= per_loss * restarts:
        return None
    return (
        f"repeats too little: {key} is {attempts}, and a lost TaskManager uses up to "
        f"{per_loss} attempts"
    )
