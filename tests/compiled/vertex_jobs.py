"""A stand-in for Vertex AI's custom jobs, which runs them on this machine."""

import dataclasses
import json
import re
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

_PARENT = re.compile(r"projects/[^/]+/locations/(?P<region>[a-z]+-[a-z]+\d+)")
_ENDPOINT = "{}-aiplatform.googleapis.com"
_LABEL = re.compile(r"[a-z0-9_-]{0,63}")
_LONGEST_DISPLAY_NAME = 128


class InvalidJobError(ValueError):
    """A request that Vertex AI refuses with INVALID_ARGUMENT."""


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
    """Returns the custom jobs in order of creation.

    Args:
      directory: The stand-in's directory.
    """
    return [
        RecordedJob(**{**json.loads(path.read_text()), "log": path.with_suffix(".log")})
        for path in sorted(directory.glob("*.json"))
    ]


def stand_in(directory: Path, image: dict[str, str], server: WorkerConnection) -> None:
    """Replaces this process's client of the service.

    Args:
      directory: Directory to record jobs in.
      image: Environment variables of the jobs' image.
      server: Worker that runs their containers.
    """

    class JobServiceClient:
        """The calls that TFX makes, see `tfx.extensions...training_clients`."""

        def __init__(self, client_options: dict[str, str]) -> None:
            self._endpoint = client_options["api_endpoint"]

        def create_custom_job(
            self, parent: str, custom_job: dict[str, Any]
        ) -> CustomJob:
            # The real client makes the same message of its arguments.
            request = CreateCustomJobRequest(parent=parent, custom_job=custom_job)
            check(self._endpoint, request)
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


def check(endpoint: str, request: CreateCustomJobRequest) -> None:
    """Refuses an invalid custom job as Vertex AI does.

    Args:
      endpoint: Host of the request.
      request: The request.

    Raises:
      InvalidJobError: The request violates the reference of `CustomJob`.
    """
    job = request.custom_job
    pools = job.job_spec.worker_pool_specs
    location = _PARENT.fullmatch(request.parent)
    faults = {
        f"parent: {request.parent!r}": location is None,
        f"endpoint {endpoint!r} is not of the region of {request.parent!r}": (
            location is not None and endpoint != _ENDPOINT.format(location["region"])
        ),
        f"display_name: {job.display_name!r} of 1 to {_LONGEST_DISPLAY_NAME}": (
            not 0 < len(job.display_name) <= _LONGEST_DISPLAY_NAME
        ),
        f"labels: {dict(job.labels)}": not all(
            key and _LABEL.fullmatch(key) and _LABEL.fullmatch(value)
            for key, value in job.labels.items()
        ),
        "worker_pool_specs: none": not pools,
        "worker_pool_specs[0].replica_count: must be 1": (
            bool(pools) and pools[0].replica_count != 1
        ),
    }
    for index, pool in enumerate(pools):
        field = f"worker_pool_specs[{index}]"
        # An unused role has an empty pool.
        used = index == 0 or pool.replica_count > 0
        faults[f"{field}.machine_spec.machine_type: empty"] = (
            used and not pool.machine_spec.machine_type
        )
        faults[f"{field}.container_spec.image_uri: empty"] = (
            used and not pool.container_spec.image_uri
        )
    messages = [text for text, is_fault in faults.items() if is_fault]
    if messages:
        raise InvalidJobError("INVALID_ARGUMENT: " + "; ".join(messages))


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
