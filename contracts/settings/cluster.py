"""The cluster of a training, which the environment variable `TF_CONFIG` names."""

from __future__ import annotations

import os
from typing import Any

from pydantic import (
    BaseModel,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from contracts.errors import UsageError

VARIABLE = "TF_CONFIG"
PARAMETER_SERVER = "parameter_server"
MULTI_WORKER = "multi_worker_mirrored"
_IGNORE = (
    "unset it, or use `trainer.strategy=one_device` or `trainer.strategy=mirrored`, "
    "which ignore it"
)


class _Task(BaseModel):
    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type} {self.index}"


class _Content(BaseModel):
    cluster: dict[str, list[str]] = {}
    task: _Task | None = None

    @field_validator("cluster")
    @classmethod
    def _drop_empty_jobs(cls, cluster: dict[str, list[str]]) -> dict[str, list[str]]:
        return {job: addresses for job, addresses in cluster.items() if addresses}

    @field_validator("task", mode="before")
    @classmethod
    def _ignore_without_cluster(cls, task: Any, info: ValidationInfo) -> Any:
        return task if info.data.get("cluster") else None

    @model_validator(mode="after")
    def _check_task(self) -> _Content:
        if self.cluster and self.task is None:
            raise ValueError("a cluster needs the task of this process")
        # A cluster of one process ignores its task. An evaluator is in no cluster.
        if self.task and self.count > 1 and self.task.type != "evaluator":
            tasks = len(self.cluster.get(self.task.type, []))
            if not 0 <= self.task.index < tasks:
                raise ValueError(f"{self.task} is not in the cluster")
        return self

    @property
    def count(self) -> int:
        """The number of tasks."""
        return sum(map(len, self.cluster.values()))


def _read() -> _Content:
    text = os.environ.get(VARIABLE) or "{}"
    try:
        return _Content.model_validate_json(text)
    except ValidationError as error:
        (first, *_) = error.errors()
        key = "".join(f"{part}: " for part in first["loc"])
        raise UsageError(
            VARIABLE,
            f"{text[:200]!r} ({key}{first['msg']})",
            'JSON with "cluster", lists of addresses by job (TensorFlow\'s sparse form '
            'is not supported), and "task", a type and an index',
            _IGNORE,
            name="E-tf-config",
        ) from error


def read_cluster() -> dict[str, list[str]]:
    """Returns the addresses of each job; empty without a cluster.

    Raises:
      UsageError: The variable has another form.
    """
    return _read().cluster


def select_strategy(name: str) -> str | None:
    """Returns the strategy of several processes that a setting selects.

    Args:
      name: Setting `trainer.strategy`. Only `auto` and the strategies of several
        processes read `TF_CONFIG`.

    Returns:
      `parameter_server` or `multi_worker_mirrored`; None for one process.

    Raises:
      UsageError: `TF_CONFIG` has another form, or lacks a job that the strategy needs.
    """
    if name not in ("auto", MULTI_WORKER, PARAMETER_SERVER):
        return None
    cluster = read_cluster()
    if name != "auto":
        selected = name
    elif "ps" in cluster:
        selected = PARAMETER_SERVER
    elif sum(len(cluster.get(job, [])) for job in ("chief", "worker")) > 1:
        selected = MULTI_WORKER
    else:
        return None
    missing = [] if cluster else ["cluster"]
    if cluster and selected == PARAMETER_SERVER:
        missing = [job for job in ("ps", "worker") if job not in cluster]
    if missing:
        raise UsageError(
            VARIABLE,
            f"it names no {missing[0]}, which trainer.strategy {selected} needs",
            advice="set it in every process, or choose another strategy",
            name="E-tf-config",
        )
    return selected


def ignore() -> None:
    """Unsets `TF_CONFIG` for a training in one process.

    TFX's Trainer and `MirroredStrategy` read it whatever the strategy is. With the task
    of another job, TFX would take this process for a worker of that job.
    """
    os.environ.pop(VARIABLE, None)


def check_local_run(strategy: str) -> str | None:
    """Checks, before a run on this machine, that its Trainer can use `TF_CONFIG`.

    Args:
      strategy: Setting `trainer.strategy`.

    Returns:
      The strategy, as `select_strategy`.

    Raises:
      UsageError: The variable has another form, or this process cannot train alone or
        coordinate parameter servers with it.
    """
    selected = select_strategy(strategy)
    content = _read() if selected else _Content()
    # TensorFlow configures collective operations only in a process that has not run an
    # operation. Here Transform runs before the Trainer.
    if selected == MULTI_WORKER:
        jobs = " and ".join(content.cluster)
        raise UsageError(
            VARIABLE,
            f"it names a cluster of {jobs}, which trainer.strategy {strategy} uses, "
            "but a run on this machine trains in one process",
            advice=_IGNORE,
            name="E-tf-config",
        )
    # The Trainer of another task waits for the coordinator until it is killed.
    if content.task and content.task.type != "chief":
        raise UsageError(
            VARIABLE,
            f"it calls this process {content.task} of a cluster with parameter "
            f"servers, which trainer.strategy {strategy} uses, but a run on this "
            "machine is their coordinator",
            advice=f"start it as the chief, {_IGNORE}",
            name="E-tf-config",
        )
    return selected


def prepare_local_run(strategy: str) -> None:
    """Checks `TF_CONFIG` as `check_local_run`, and unsets it if it is not used."""
    if check_local_run(strategy) is None:
        ignore()
