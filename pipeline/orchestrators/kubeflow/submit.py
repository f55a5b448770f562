"""Starts a compiled pipeline on Kubeflow Pipelines."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.orchestrators.kubeflow.server import KubeflowServer
from pipeline.orchestrators.package import CompiledPipeline, read_package
from pipeline.orchestrators.submitted_run import (
    SUCCEEDED,
    Report,
    RunFailedError,
    SubmittedRun,
    quiet_libraries,
    wait_for_end,
)

if TYPE_CHECKING:
    from pipeline.orchestrators.kubeflow.client import Client


def submit_to_kubeflow(
    package: Path,
    *,
    server: KubeflowServer,
    pipeline_name: str,
    experiment: str,
    run_name: str,
    parameters: Mapping[str, Any],
    pipeline_root: str | None = None,
    enable_caching: bool | None = None,
    service_account: str | None = None,
    wait_seconds: float | None = None,
    poll_seconds: float = 10.0,
    report: Report = print,
) -> SubmittedRun:
    """Uploads a compiled pipeline to Kubeflow Pipelines and runs it.

    Args:
      package: The compiled pipeline, a pipeline spec 2.1.0 in YAML.
      server: Where to run it.
      pipeline_name: Name in Kubeflow. A name that is new becomes a pipeline, one that
        exists gets another version.
      experiment: The experiment that the run belongs to; made if it is new.
      run_name: Name of the run and of the version.
      parameters: Values of the pipeline's runtime parameters.
      pipeline_root: Where artifacts go; None leaves it to the pipeline and the cluster.
      enable_caching: Whether results of earlier runs are used again, for all tasks;
        None leaves what was compiled.
      service_account: The Kubernetes service account of the run's pods.
      wait_seconds: How long to wait for the end at most; None does not wait.
      poll_seconds: Time between two looks at the run.
      report: Called with what a person would want to know.

    Raises:
      UsageError: The package or a parameter does not fit, which is found before
        anything is sent; or the server cannot be reached or refuses.
      RunFailedError: The run was waited for and did not succeed.
      RunTimeoutError: The run was waited for and has not ended.
    """
    compiled = read_package(package, suffixes=(".yaml", ".yml"))
    compiled.check_parameters(parameters)
    from pipeline.orchestrators.kubeflow import client as client_lib

    with quiet_libraries(), client_lib.clear_errors(server.host):
        client = client_lib.connect(server)
        namespace = server.namespace or client.get_user_namespace() or None
        with contextlib.redirect_stdout(io.StringIO()):  # kfp's own links
            pipeline_id, version_id = _upload(
                client, compiled, enable_caching, pipeline_name, run_name, namespace
            )
            group = client.create_experiment(experiment, namespace=namespace)
            started = client.run_pipeline(
                group.experiment_id,
                run_name,
                params=dict(parameters),
                pipeline_id=pipeline_id,
                version_id=version_id,
                pipeline_root=pipeline_root,
                service_account=service_account,
            )
        watch = client_lib.RunWatch(server, client, started)
        run = SubmittedRun(started.run_id, server.run_link(started.run_id), watch.state)
        report(f"run {run_name} started: {run.link}")
        if wait_seconds is None:
            return run
        run = wait_for_end(
            run,
            watch.look,
            wait_seconds=wait_seconds,
            poll_seconds=poll_seconds,
            report=report,
        )
    if run.state != SUCCEEDED:
        raise RunFailedError(run, watch.reasons())
    return run


def _upload(
    client: Client,
    compiled: CompiledPipeline,
    enable_caching: bool | None,
    pipeline_name: str,
    version_name: str,
    namespace: str | None,
) -> tuple[str, str]:
    """Returns the IDs of the pipeline and of the version that the package became."""
    pipeline_id = _find_pipeline(client, pipeline_name, namespace)
    # run_pipeline's own option does nothing where a version is run.
    with compiled.with_caching(enable_caching) as file:
        if pipeline_id is not None:
            version = client.upload_pipeline_version(
                str(file), version_name, pipeline_id=pipeline_id
            )
            return pipeline_id, version.pipeline_version_id
        pipeline = client.upload_pipeline(str(file), pipeline_name, namespace=namespace)
    # The server makes the first version itself, and does not name it in its answer.
    versions = client.list_pipeline_versions(
        pipeline.pipeline_id, page_size=1, sort_by="created_at desc"
    )
    return pipeline.pipeline_id, versions.pipeline_versions[0].pipeline_version_id


def _find_pipeline(client: Client, name: str, namespace: str | None) -> str | None:
    """Returns a pipeline's ID. kfp's own get_pipeline_id sees no namespace but none."""
    condition = {"operation": "EQUALS", "key": "display_name", "stringValue": name}
    found = client.list_pipelines(
        filter=json.dumps({"predicates": [condition]}), namespace=namespace
    )
    return found.pipelines[0].pipeline_id if found.pipelines else None
