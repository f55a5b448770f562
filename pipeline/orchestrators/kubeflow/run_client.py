"""Starts and watches a run on Kubeflow Pipelines."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import kfp_server_api
import yaml
from urllib3.exceptions import HTTPError

from pipeline.orchestrators.kubeflow import kfp_client
from pipeline.orchestrators.kubeflow.failed_run import FailedRun
from pipeline.orchestrators.kubeflow.login import KubeflowServer
from pipeline.orchestrators.run_client import FAILED, PENDING, RunClient, RunRequest

# Consecutive polling failures tolerated: a network outage, a restart of the API server.
_MAX_POLLING_FAILURES = 10


class KubeflowRunClient(RunClient):
    """A client of Kubeflow Pipelines, for one run.

    Args:
      server: Address and log-in.
    """

    poll_seconds = 10.0

    def __init__(self, server: KubeflowServer) -> None:
        self._server = server
        self._client: kfp_client.Client
        self._run: Any
        self._polling_failures = 0
        self._max_retries: dict[str, int] = {}
        self._namespace: str | None = None

    def clear_errors(self) -> contextlib.AbstractContextManager[None]:
        """Turns kfp's errors into `UsageError`s."""
        return kfp_client.clear_errors(self._server.host)

    def start(self, package: Path, request: RunRequest) -> None:
        """Uploads the pipeline, or a new version of it, and runs it.

        The experiment is named after the pipeline by default.
        """
        self._client = kfp_client.connect(self._server)
        with package.open("rb") as file:
            spec = next(yaml.safe_load_all(file))
        self._max_retries = {
            name: task.get("retryPolicy", {}).get("maxRetryCount", 0)
            for name, task in spec["root"]["dag"].get("tasks", {}).items()
        }
        namespace = self._server.namespace or self._client.get_user_namespace() or None
        self._namespace = namespace
        with contextlib.redirect_stdout(io.StringIO()):  # kfp prints links
            pipeline_id, version_id = self._upload(package, request, namespace)
            experiment = self._client.create_experiment(
                request.experiment or request.pipeline_name, namespace=namespace
            )
            run = self._client.run_pipeline(
                experiment.experiment_id,
                request.run_name,
                params=dict(request.parameters),
                pipeline_id=pipeline_id,
                version_id=version_id,
                pipeline_root=request.pipeline_root,
                service_account=request.service_account,
            )
        self.run_id = run.run_id
        self.directory = f"{request.pipeline_root}/{request.pipeline_name}/{run.run_id}"
        self.link = self._server.run_link(run.run_id)
        self.state = run.state or PENDING  # the server omits it at first

    def read_state(self) -> str:
        """Returns the run's state, or after a failed request the last known state."""
        try:
            self._run = self._read_run()
            self._polling_failures = 0
        except (kfp_server_api.ApiException, HTTPError) as error:
            self._polling_failures += 1
            is_refused = getattr(error, "status", 500) < 500
            if is_refused or self._polling_failures > _MAX_POLLING_FAILURES:
                raise
            return self.state
        return self._run.state or self.state

    def explain_failure(self) -> tuple[str, set[int]]:
        """Returns the run's message and, for each component that failed, its error."""
        message = (self._run.error.message if self._run.error else None) or ""
        if self.state != FAILED:
            return message, set()
        details = self._run.run_details
        run = FailedRun(
            run_id=self.run_id,
            tasks=(details.task_details if details else None) or [],
            max_retries=self._max_retries,
            directory=self.directory,
            namespace=self._namespace or kfp_client.DEFAULT_NAMESPACE,
            read_pod_log=lambda pod: self._client.read_pod_log(self.run_id, pod),
        )
        reasons, statuses = run.explain()
        return "; ".join(filter(None, [message, reasons])), statuses

    def _read_run(self) -> Any:
        try:
            return self._client.runs.run_service_get_run(self.run_id)
        except kfp_server_api.ApiException as error:
            if error.status != 401:
                raise
        # A token of Identity-Aware Proxy lasts an hour, a run may last days.
        self._client = kfp_client.connect(self._server)
        return self._client.runs.run_service_get_run(self.run_id)

    def _upload(
        self, package: Path, request: RunRequest, namespace: str | None
    ) -> tuple[str, str]:
        """Uploads a package; returns the IDs of the pipeline and of the version."""
        # kfp's `get_pipeline_id` ignores the namespace.
        condition = {
            "operation": "EQUALS",
            "key": "display_name",
            "stringValue": request.pipeline_name,
        }
        existing = self._client.list_pipelines(
            filter=json.dumps({"predicates": [condition]}), namespace=namespace
        ).pipelines
        if existing:
            pipeline_id = existing[0].pipeline_id
            version = self._client.upload_pipeline_version(
                str(package), request.run_name, pipeline_id=pipeline_id
            )
            return pipeline_id, version.pipeline_version_id
        pipeline = self._client.upload_pipeline(
            str(package), request.pipeline_name, namespace=namespace
        )
        # The server creates the first version, but its response does not have the ID.
        versions = self._client.list_pipeline_versions(
            pipeline.pipeline_id, page_size=1, sort_by="created_at desc"
        )
        return pipeline.pipeline_id, versions.pipeline_versions[0].pipeline_version_id
