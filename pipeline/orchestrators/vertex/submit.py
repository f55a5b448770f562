"""Starts a compiled pipeline on Vertex AI Pipelines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.config.errors import UsageError
from pipeline.orchestrators.package import CompiledPipeline, read_package
from pipeline.orchestrators.submitted_run import (
    SUCCEEDED,
    Report,
    RunFailedError,
    SubmittedRun,
    quiet_libraries,
    wait_for_end,
)

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_LOG_IN = (
    "run `gcloud auth application-default login`, or set "
    "$GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account"
)
_CREATE_SECONDS = 60.0


def submit_to_vertex(
    package: Path,
    *,
    project: str,
    region: str,
    display_name: str,
    parameters: Mapping[str, Any],
    job_id: str | None = None,
    pipeline_root: str | None = None,
    enable_caching: bool | None = None,
    service_account: str | None = None,
    network: str | None = None,
    labels: Mapping[str, str] | None = None,
    experiment: str | None = None,
    credentials: Any = None,
    wait_seconds: float | None = None,
    poll_seconds: float = 30.0,
    report: Report = print,
) -> SubmittedRun:
    """Runs a compiled pipeline on Vertex AI Pipelines.

    Args:
      package: The compiled pipeline: a job in JSON or a pipeline spec in YAML, 2.0.0 or
        2.1.0.
      project: Google Cloud project, its ID.
      region: Where to run, as `europe-west4`.
      display_name: Name of the run in the console.
      parameters: Values of the pipeline's runtime parameters.
      job_id: ID of the run, unlike any other's; None makes one of the pipeline's name
        and the time.
      pipeline_root: Where artifacts go, a `gs://` address; None takes the package's,
        or else a bucket of the project's that is made if need be. The client also
        tries to make a bucket that is named here and does not exist.
      enable_caching: Whether results of earlier runs are used again, for all tasks;
        None leaves what was compiled.
      service_account: E-mail address of the service account that the tasks run as;
        None takes the default one of Compute Engine.
      network: The VPC network that the tasks are peered with, as
        `projects/12345/global/networks/NAME`.
      labels: Labels of the job.
      experiment: Vertex AI experiment that the run is added to; made if it is new.
      credentials: `google.auth` credentials; None takes application-default ones.
      wait_seconds: How long to wait for the end at most; None does not wait.
      poll_seconds: Time between two looks at the run.
      report: Called with what a person would want to know.

    Raises:
      UsageError: The package or an argument does not fit, there are no credentials, or
        Vertex AI refuses.
      RunFailedError: The run was waited for and did not succeed.
      RunTimeoutError: The run was waited for and has not ended.
    """
    compiled = read_package(package, schema_versions=("2.1.0", "2.0.0"))
    compiled.check_parameters(parameters)
    _check_root(compiled, pipeline_root)
    with quiet_libraries(), _clear_errors(project, region):
        job = _job(
            display_name=display_name,
            template_path=str(package),
            job_id=job_id,
            pipeline_root=pipeline_root,
            parameter_values=dict(parameters),
            enable_caching=enable_caching,
            labels=dict(labels or {}),
            credentials=credentials or _application_default(),
            project=project,
            location=region,
        )
        _submit(job, service_account, network, experiment)
        run = SubmittedRun(job.job_id, _console_link(job.resource_name), _state(job))
    report(f"run {display_name} started: {run.link}")
    if wait_seconds is None:
        return run
    with quiet_libraries(), _clear_errors(project, region):
        run = wait_for_end(
            run,
            lambda: _state(job),
            wait_seconds=wait_seconds,
            poll_seconds=poll_seconds,
            report=report,
        )
    if run.state != SUCCEEDED:
        raise RunFailedError(run, _reasons(job))
    return run


def _check_root(compiled: CompiledPipeline, given: str | None) -> None:
    root = (
        given
        or compiled.spec.get("defaultPipelineRoot")
        or compiled.job_settings.get("gcsOutputDirectory")
    )
    if root and not root.startswith("gs://"):
        raise UsageError(
            f"the pipeline root is {root}; Vertex AI writes to gs:// only, give such a "
            "pipeline root"
        )


def _job(**arguments: Any) -> Any:
    from google.cloud import aiplatform

    try:
        return aiplatform.PipelineJob(**arguments)
    except ValueError as error:  # a region, name, job ID or label that cannot be
        raise UsageError(f"Vertex AI does not take this: {error}") from error


def _submit(
    job: Any, service_account: str | None, network: str | None, experiment: str | None
) -> None:
    try:
        job.submit(
            service_account=service_account,
            network=network,
            experiment=experiment,
            create_request_timeout=_CREATE_SECONDS,
        )
    except (RuntimeError, ValueError) as error:
        if experiment is None:
            raise
        # Its text says whether the run was started nevertheless.
        raise UsageError(
            f"experiment {experiment}: {error} ({error.__cause__})"
        ) from error


def _application_default() -> Any:
    """Returns the credentials of this machine, tried, since others wait for minutes."""
    import google.auth
    from google.auth.transport.requests import Request

    credentials, _ = google.auth.default(scopes=[_SCOPE])
    credentials.refresh(Request())
    return credentials


def _state(job: Any) -> str:
    return job.state.name.removeprefix("PIPELINE_STATE_")


def _reasons(job: Any) -> str:
    """Returns why a job failed, as far as Vertex AI says."""
    resource = job.gca_resource
    tasks = [
        f"{task.task_name} {task.error.message}".strip()
        for task in resource.job_detail.task_details
        if task.state.name == "FAILED"
    ]
    return "; ".join(filter(None, [resource.error.message, *tasks]))


def _console_link(resource_name: str) -> str:
    """Returns the address of a job's page in the console, as the client logs it."""
    from google.cloud import aiplatform_v1

    name = aiplatform_v1.PipelineServiceClient.parse_pipeline_job_path(resource_name)
    return (
        f"https://console.cloud.google.com/vertex-ai/locations/{name['location']}"
        f"/pipelines/runs/{name['pipeline_job']}?project={name['project']}"
    )


@contextlib.contextmanager
def _clear_errors(project: str, region: str) -> Iterator[None]:
    """Turns what Google Cloud refuses into errors a user can mend."""
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    where = f"Vertex AI in project {project}, region {region}"
    try:
        yield
    except auth.DefaultCredentialsError as error:
        raise UsageError(f"no credentials for {where}: {_LOG_IN}") from error
    except (
        auth.TransportError,
        api.ServiceUnavailable,
        api.DeadlineExceeded,
        api.RetryError,
    ) as error:
        raise UsageError(
            f"{where} cannot be reached ({error}); is the network there, the region "
            "right?"
        ) from error
    except auth.GoogleAuthError as error:
        raise UsageError(
            f"the credentials for {where} are not accepted ({error}): {_LOG_IN}"
        ) from error
    except api.Unauthenticated as error:
        raise UsageError(f"{where}: {error.message}. To log in, {_LOG_IN}") from error
    except api.PermissionDenied as error:
        raise UsageError(
            f"{where}: {error.message}. To start a pipeline takes the role "
            "roles/aiplatform.user, and roles/iam.serviceAccountUser on the service "
            "account that it runs as"
        ) from error
    except api.AlreadyExists as error:
        raise UsageError(f"{where}: {error.message}. Choose another job ID") from error
    except api.GoogleAPICallError as error:
        raise UsageError(f"{where} refused: {error.message}") from error
