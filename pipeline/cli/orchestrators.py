"""The commands for Kubeflow and Vertex AI: compile and submit."""

from __future__ import annotations

import datetime
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from contracts.errors import UsageError
from contracts.storage import files
from modules import environment
from pipeline.api.orchestrated import compile_job
from pipeline.api.recipes import Recipe
from pipeline.cli import options
from pipeline.config import parameters, recipe
from pipeline.config.orchestrators import KUBEFLOW, Orchestrator
from pipeline.config.recipe import Config
from pipeline.console import Console
from pipeline.orchestrators import compilation, staging
from pipeline.orchestrators.kubeflow.login import KubeflowServer
from pipeline.orchestrators.run_client import (
    RunClient,
    RunFailedError,
    RunRequest,
    RunTimeoutError,
    quiet_libraries,
    submit,
)

_ORCHESTRATOR = click.option(
    "--orchestrator",
    type=options.allowed(Orchestrator),
    required=True,
    help="Where the pipeline runs.",
)


@click.command("compile")
@_ORCHESTRATOR
@click.option(
    "-o",
    "--output",
    "package",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write: .yaml, or .json for Vertex.",
)
@click.option(
    "--stage",
    is_flag=True,
    help="Also copy the job's files and inputs to pipeline_root.",
)
@options.CONFIG
@options.SET
def compile_command(
    orchestrator: Orchestrator,
    package: Path,
    stage: bool,
    config_file: Path,
    overrides: dict[str, Any],
) -> None:
    """Compile the pipeline for an orchestrator; needs no network.

    `submit`, or --stage, copies the job's files and the pipeline's inputs below the
    pipeline root. A run needs these copies; copy again after changing a setting.
    """
    compilation.check_package(package)
    read = Recipe(config_file, overrides)
    environment.set_up(quiet=True)
    job = compile_job(read, orchestrator, package, report=click.echo)
    click.echo(f"written to {package}")
    if stage:
        staging.copy(job.staged, click.echo)
    else:
        click.echo("before a run, copy its files with --stage, or start it with submit")


@click.command("submit")
@_ORCHESTRATOR
@click.option("--host", metavar="URL", help="Kubeflow: address of its API.")
@click.option("--project", help="Vertex: Google Cloud project; sets vertex.project.")
@click.option("--region", help="Vertex: region; sets vertex.region.")
@click.option("--experiment", help="Experiment of the run.")
@click.option("--run-name", help="Name of the run. Default: pipeline name and time.")
@click.option(
    "--parameter",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the run, such as epochs=2. Repeatable.",
)
@click.option("--service-account", help="Account that the run's containers use.")
@click.option("--namespace", help="Kubeflow: namespace, if it has several users.")
@click.option("--iap-client-id", help="Kubeflow: client ID of Identity-Aware Proxy.")
@click.option(
    "--iap-desktop-client-id",
    help="Kubeflow: client ID of a desktop app, to log in there in a browser.",
)
@click.option("--pod-token", is_flag=True, help="Kubeflow: log in as this pod.")
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path),
    help="Kubeflow: PEM certificates of a private authority.",
)
@click.option("--no-cache", is_flag=True, help="Run every component again.")
@click.option(
    "--wait",
    "wait_seconds",
    type=options.FloatRange(0),
    # click: the value is optional; `--wait` without a value means `flag_value`.
    is_flag=False,
    flag_value=math.inf,
    metavar="[SECONDS]",
    help="Wait for the end of the run, for SECONDS at most.",
)
@options.CONFIG
@options.SET
def submit_command(
    orchestrator: str,
    config_file: Path,
    overrides: dict[str, Any],
    values: tuple[str, ...],
    project: str | None,
    region: str | None,
    no_cache: bool,
    wait_seconds: float | None,
    experiment: str | None,
    run_name: str | None,
    service_account: str | None,
    **login: Any,
) -> None:
    """Compile the pipeline, copy its inputs to the pipeline root, and start a run.

    Secrets come from the environment: KF_PIPELINES_TOKEN, KF_PIPELINES_COOKIES,
    GOOGLE_APPLICATION_CREDENTIALS.
    """
    from_options = {
        "vertex.project": project,
        "vertex.region": region,
        f"{orchestrator}.cache": False if no_cache else None,
    }
    overrides |= {
        key: value for key, value in from_options.items() if value is not None
    }
    config = recipe.load_config(config_file, overrides)
    run_values = parameters.parse(values)
    # Refuse now what the run would refuse after hours.
    recipe.load_config(config_file, overrides | parameters.as_settings(run_values))
    environment.set_up(quiet=True)
    settings = compilation.orchestrator_settings(config, orchestrator)
    files.check_remote(settings.pipeline_root)
    client = _make_client(config, orchestrator, **login)
    job = compilation.compile_job(config, orchestrator, click.echo)
    staging.copy(job.staged, click.echo)
    now = datetime.datetime.now(datetime.timezone.utc)
    request = RunRequest(
        pipeline_name=config.name,
        run_name=run_name or f"{config.name}-{now:%Y%m%d-%H%M%Sz}",
        pipeline_root=job.spec["defaultPipelineRoot"],
        parameters={name: parameters.encode(v) for name, v in run_values.items()},
        experiment=experiment,
        service_account=service_account,
    )
    if orchestrator == KUBEFLOW and settings.retries:
        click.echo(
            "kubeflow.retries: since Kubeflow Pipelines 2.17, the cluster decides "
            "whether a failed component is retried. To use this setting, delete "
            "templateDefaults.retryStrategy in the ConfigMap "
            "workflow-controller-configmap; see docs/orchestrators.md#retries"
        )
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "pipeline.yaml"
        compilation.write_job(job, package)
        try:
            submit(client, package, request, click.echo, wait_seconds)
        except (RunFailedError, RunTimeoutError) as error:
            Console(stderr=True).print(str(error), soft_wrap=True)
            sys.exit(error.exit_status)


def _make_client(
    config: Config, orchestrator: str, host: str | None, **login: Any
) -> RunClient:
    settings = compilation.orchestrator_settings(config, orchestrator)
    if orchestrator == KUBEFLOW:
        if host is None:
            raise UsageError(
                "host",
                "missing, but required by Kubeflow",
                advice="give `host=URL`",
                name="E-option-missing",
            )
        server = KubeflowServer(host, **login)
        with quiet_libraries():  # kfp warns when it is imported
            from pipeline.orchestrators.kubeflow.run_client import KubeflowRunClient
        return KubeflowRunClient(server)
    given = [name for name, value in {"host": host, **login}.items() if value]
    if given:
        raise UsageError(
            got=", ".join(f"`{name}`" for name in given),
            allowed="only with `orchestrator=kubeflow`",
            name="E-options-conflict",
        )
    with quiet_libraries():  # Google's libraries warn when they are imported
        from pipeline.orchestrators.vertex.run_client import VertexRunClient
    return VertexRunClient(settings)
