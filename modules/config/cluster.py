"""The cluster of a training, which the environment variable `TF_CONFIG` names."""

from __future__ import annotations

import os

from pydantic import BaseModel, ValidationError, model_validator

from modules.errors import UsageError

VARIABLE = "TF_CONFIG"
PARAMETER_SERVER = "parameter_server"
MULTI_WORKER = "multi_worker_mirrored"


class _Task(BaseModel):
    type: str
    index: int


class _Content(BaseModel):
    cluster: dict[str, list[str]] = {}
    task: _Task | None = None

    @model_validator(mode="after")
    def _check_task(self) -> _Content:
        if self.cluster and self.task is None:
            raise ValueError("a cluster needs the task of this process")
        return self


def read_cluster() -> dict[str, list[str]]:
    """Returns the addresses of each job of the cluster; empty if there is none.

    Raises:
      UsageError: The variable has another form.
    """
    text = os.environ.get(VARIABLE) or "{}"
    try:
        return _Content.model_validate_json(text).cluster
    except ValidationError as error:
        (first, *_) = error.errors()
        key = "".join(f"{part}: " for part in first["loc"])
        raise UsageError(
            f"the environment variable {VARIABLE} is {text[:200]!r} ({key}"
            f"{first['msg']}); allowed is JSON with `cluster`, lists of addresses by "
            "job, and `task`, a type and an index. Unset it, or set trainer.strategy "
            "to one_device or mirrored, which ignore it"
        ) from error


def select_strategy(name: str) -> str | None:
    """Returns the strategy of several processes that a setting selects.

    Args:
      name: Setting `trainer.strategy`. Only `auto` and the strategies of several
        processes read `TF_CONFIG`.

    Returns:
      `parameter_server` or `multi_worker_mirrored`; None for one process.

    Raises:
      UsageError: `TF_CONFIG` has another form, or names no cluster for the strategy.
    """
    if name not in ("auto", MULTI_WORKER, PARAMETER_SERVER):
        return None
    cluster = read_cluster()
    if name != "auto":
        if not cluster:
            raise UsageError(
                f"trainer.strategy is {name}, but the environment variable {VARIABLE} "
                "names no cluster; set it in every process, or choose another strategy"
            )
        return name
    if "ps" in cluster:
        return PARAMETER_SERVER
    tasks = sum(len(cluster.get(job, [])) for job in ("chief", "worker"))
    return MULTI_WORKER if tasks > 1 else None


def ignore() -> None:
    """Unsets `TF_CONFIG` for a training in one process.

    TFX's Trainer and `MirroredStrategy` read it whatever the strategy is. With the task
    of another job, TFX would take this process for a worker of that job.
    """
    os.environ.pop(VARIABLE, None)


def prepare_local_run(strategy: str) -> None:
    """Checks, before a run on this machine, that its Trainer can use `TF_CONFIG`.

    Args:
      strategy: Setting `trainer.strategy`.

    Raises:
      UsageError: The variable has another form, or selects a strategy that needs
        another process.
    """
    selected = select_strategy(strategy)
    if selected is None:
        ignore()
    # TensorFlow configures collective operations only in a process that has not run an
    # operation. Here Transform runs before the Trainer.
    elif strategy != PARAMETER_SERVER:
        tasks = sum(map(len, read_cluster().values()))
        count = f"{tasks} task" if tasks == 1 else f"{tasks} tasks"
        raise UsageError(
            f"trainer.strategy is {strategy}, and the environment variable {VARIABLE} "
            f"names a cluster of {count}, but a run on this machine trains in one "
            f"process; unset {VARIABLE}, or set trainer.strategy to one_device or "
            "mirrored, which ignore it"
        )
