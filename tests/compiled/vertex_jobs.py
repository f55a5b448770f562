"""A stand-in for Vertex AI's custom jobs, which runs them on this machine."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from google.cloud import aiplatform
from google.cloud.aiplatform_v1.types import (
    CreateCustomJobRequest,
    CustomJob,
    GetCustomJobRequest,
    JobState,
)

from tests.compiled.container import Container, WorkerConnection


@dataclasses.dataclass(frozen=True)
class RecordedJob:
    """A custom job that was created.

    Attributes:
      parent: Project and location of the request.
      request: The `CustomJob` in JSON, with the field names of the proto.
      state: Final state, as `JOB_STATE_SUCCEEDED`.
      log: Output of worker pool 0.
    """

    parent: str
    request: dict[str, Any]
    state: str
    log: Path


def read_jobs(directory: Path) -> list[RecordedJob]:
    """Returns the custom jobs in order of creation."""
    return [
        RecordedJob(**{**json.loads(path.read_text()), "log": path.with_suffix(".log")})
        for path in sorted(directory.glob("*.json"))
    ]


def stand_in(directory: Path, image: dict[str, str], server: WorkerConnection) -> None:
    """Replaces this process's client of the service."""

    class JobServiceClient:
        """The calls that TFX makes, see `tfx.extensions...training_clients`."""

        def __init__(self, client_options: dict[str, str]) -> None:
            del client_options

        def create_custom_job(
            self, parent: str, custom_job: dict[str, Any]
        ) -> CustomJob:
            # The real client makes the same message of its arguments.
            request = CreateCustomJobRequest(parent=parent, custom_job=custom_job)
            number = len(list(directory.glob("*.json")))
            _write(directory, number, request, JobState.JOB_STATE_PENDING)
            return _named(request, number, JobState.JOB_STATE_PENDING)

        def get_custom_job(self, name: str, retry: Any = None) -> CustomJob:
            del retry
            number = int(GetCustomJobRequest(name=name).name.rpartition("/")[2])
            record = json.loads(_path(directory, number).read_text())
            request = CreateCustomJobRequest(
                parent=record["parent"], custom_job=record["request"]
            )
            state = JobState[record["state"]]
            if state == JobState.JOB_STATE_PENDING:
                # The caller would poll until the end, so this call runs the job.
                state = _run(directory, number, request, image, server)
                _write(directory, number, request, state)
            return _named(request, number, state)

    aiplatform.gapic.JobServiceClient = JobServiceClient


def _run(
    directory: Path,
    number: int,
    request: CreateCustomJobRequest,
    image: dict[str, str],
    server: WorkerConnection,
) -> JobState:
    """Runs the container of worker pool 0, and returns the final state."""
    spec = request.custom_job.job_spec.worker_pool_specs[0].container_spec
    home = directory / f"{number:03}"
    home.mkdir()
    code = server.run(
        Container(
            command=[*spec.command, *spec.args],
            image=image,
            variables={variable.name: variable.value for variable in spec.env},
            directory=str(home),
            log=str(_path(directory, number).with_suffix(".log")),
        )
    )
    return JobState.JOB_STATE_FAILED if code else JobState.JOB_STATE_SUCCEEDED


def _named(request: CreateCustomJobRequest, number: int, state: JobState) -> CustomJob:
    job = CustomJob(request.custom_job)
    job.name = f"{request.parent}/customJobs/{number}"
    job.state = state
    return job


def _path(directory: Path, number: int) -> Path:
    return directory / f"{number:03}.json"


def _write(
    directory: Path, number: int, request: CreateCustomJobRequest, state: JobState
) -> None:
    record = {
        "parent": request.parent,
        "request": CustomJob.to_dict(
            request.custom_job, preserving_proto_field_name=True
        ),
        "state": state.name,
    }
    _path(directory, number).write_text(json.dumps(record, indent=1))
