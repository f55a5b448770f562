"""Starts and watches a run on Vertex AI Pipelines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google.auth
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.auth.transport.requests import Request
from google.cloud import aiplatform, aiplatform_v1

from contracts.errors import SettingError, UsageError
from pipeline.config.orchestrators import VertexConfig
from pipeline.exit_status import FAILURE
from pipeline.orchestrators import run_files
from pipeline.orchestrators.run_client import FAILED, RunClient, RunRequest

_LOG_IN = (
    "run `gcloud auth application-default login`, or set "
    "$GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account"
)


class VertexRunClient(RunClient):
    """A client of Vertex AI Pipelines, for one run.

    Args:
      settings: Project, region and network.

    Raises:
      UsageError: The pipeline root is not on Cloud Storage.
    """

    poll_seconds = 30.0

    def __init__(self, settings: VertexConfig) -> None:
        if not settings.pipeline_root.startswith("gs://"):
            raise SettingError(
                "vertex.pipeline_root",
                settings.pipeline_root,
                "gs:// only, where Vertex AI writes",
                advice="use `vertex.pipeline_root=gs://BUCKET/FOLDER`",
            )
        self._settings = settings
        self._job: aiplatform.PipelineJob

    def start(self, package: Path, request: RunRequest) -> None:
        """Starts a pipeline job, with application-default credentials."""
        credentials, _ = google.auth.default(
            scopes=["https://www.googleapis.com/auth/cloud-platform"]
        )
        # If the credentials are refused, the first request would retry for minutes.
        credentials.refresh(Request())
        try:
            self._job = aiplatform.PipelineJob(
                display_name=request.run_name,
                template_path=str(package),
                pipeline_root=request.pipeline_root,
                parameter_values=dict(request.parameters),
                credentials=credentials,
                project=self._settings.project,
                location=self._settings.region,
            )
        except ValueError as error:  # an impossible region or name
            raise SettingError(
                "vertex", f"Vertex AI refuses a setting: {error}", advice="correct it"
            ) from error
        try:
            self._job.submit(
                service_account=request.service_account
                or self._settings.service_account,
                network=self._settings.network,
                experiment=request.experiment,
                create_request_timeout=60.0,
            )
        except (RuntimeError, ValueError) as error:
            if request.experiment is None:
                raise
            # The client's message reports whether the run was started anyway.
            raise SettingError(
                "experiment",
                f"{request.experiment}: {error} ({error.__cause__})",
                advice="name another, or leave `experiment` out",
            ) from error
        self.run_id = self._job.job_id
        # The address that the client logs; it has no public method for it.
        name = aiplatform_v1.PipelineServiceClient.parse_pipeline_job_path(
            self._job.resource_name
        )
        self.link = (
            f"https://console.cloud.google.com/vertex-ai/locations/{name['location']}"
            f"/pipelines/runs/{name['pipeline_job']}?project={name['project']}"
        )
        self.directory = f"{request.pipeline_root}/{name['project']}/{self.run_id}"
        self.state = self.read_state()

    def read_state(self) -> str:
        """Returns the job's current state."""
        return self._job.state.name.removeprefix("PIPELINE_STATE_")

    def explain_failure(self) -> tuple[str, set[int]]:
        """Returns the job's message and, for each task that failed, its error."""
        job = self._job.gca_resource
        if self.state != FAILED:
            return job.error.message, set()
        failures: dict[str, run_files.Failure] = {}
        unreadable = ""
        try:
            failures = run_files.find_failures(self.directory)
        except run_files.UnreadableError as error:
            unreadable = f"({error})"
        tasks = job.job_detail.task_details
        dags = {task.parent_task_id for task in tasks if task.parent_task_id}
        reasons, statuses = [], set()
        for task in tasks:
            if task.state.name != FAILED or task.task_id in dags:
                continue
            failure = failures.get(task.task_name)
            if failure is not None and failure.lines:
                reasons.append(failure.describe(task.task_name))
                statuses.add(failure.exit_status)
            else:
                reasons.append(f"{task.task_name} {task.error.message}".strip())
                statuses.add(FAILURE)
        text = "\n".join(filter(None, [*reasons, unreadable]))
        return "; ".join(filter(None, [job.error.message, text])), statuses

    @contextlib.contextmanager
    def clear_errors(self) -> Iterator[None]:
        """Turns errors of Google Cloud into `UsageError`s."""
        where = f"project {self._settings.project}, region {self._settings.region}"
        try:
            yield
        except (auth.GoogleAuthError, api.GoogleAPICallError, api.RetryError) as error:
            problem, advice = _explain(error)
            raise UsageError(
                "vertex",
                f"{where}: {problem}",
                advice=advice,
                name="E-orchestrator-refused",
            ) from error


def _explain(error: Any) -> tuple[str, str | None]:
    """Returns what Vertex AI or the log-in refused, and what to do."""
    match error:
        case auth.DefaultCredentialsError():
            return "no credentials", _LOG_IN
        case (
            auth.TransportError()
            | api.ServiceUnavailable()
            | api.DeadlineExceeded()
            | api.RetryError()
        ):
            advice = "check the network and `vertex.region`"
            return f"Vertex AI cannot be reached ({error})", advice
        case auth.GoogleAuthError():
            return f"the credentials are not accepted ({error})", _LOG_IN
        case api.Unauthenticated():
            return error.message, _LOG_IN
        case api.PermissionDenied():
            return error.message, (
                "get the role roles/aiplatform.user, and roles/iam.serviceAccountUser "
                "on the service account of the run"
            )
    return f"Vertex AI refused: {error.message}", None
