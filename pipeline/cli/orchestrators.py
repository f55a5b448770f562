"""The commands for clusters: compile and submit."""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from modules import environment
from pipeline.cli import options
from pipeline.config import parameters, recipe
from pipeline.config.recipe import Config
from pipeline.orchestrators import compilation, staging
from pipeline.orchestrators.kubeflow.server import KubeflowServer
from pipeline.orchestrators.kubeflow.submit import submit_to_kubeflow
from pipeline.orchestrators.submitted_run import RunFailedError, RunTimeoutError
from pipeline.orchestrators.vertex.submit import submit_to_vertex

EXIT_FAILURE = 1

_TARGET_OPTION = click.option(
    "--target",
    type=click.Choice(compilation.TARGETS),
    required=True,
    help="Which cluster.",
)


@click.command("compile")
@_TARGET_OPTION
@click.option(
    "-o",
    "--output",
    "package",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to write: .yaml, or .json for Vertex.",
)
@click.option("--stage", is_flag=True, help="Also copy the inputs to the cluster.")
@options.CONFIG
@options.SET
def compile_command(
    target: str,
    package: Path,
    stage: bool,
    config_file: Path,
    settings: tuple[str, ...],
) -> None:
    """Compile the pipeline for a cluster; needs no network.

    What the pipeline reads is copied below the pipeline root by `submit`, or by
    --stage.
    """
    overrides = dict(recipe.parse_override(text) for text in settings)
    config = recipe.load_config(config_file, overrides)
    environment.set_up(quiet=True)
    job = compilation.compile_job(config, target, click.echo)
    compilation.write_job(job, package)
    if stage:
        staging.copy(job.staged, click.echo)
    click.echo(f"written to {package}")


@click.command("submit")
@_TARGET_OPTION
@click.option("--host", metavar="URL", help="Address of Kubeflow Pipelines.")
@click.option("--project", help="Of Google Cloud, for vertex.project.")
@click.option("--region", help="Where Vertex runs it, for vertex.region.")
@click.option("--experiment", help="Experiment of the run; the pipeline's name.")
@click.option("--run-name", help="Name of the run; the pipeline's with the time.")
@click.option(
    "--parameter",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the run, as learning_rate=3e-5. May be repeated.",
)
@click.option("--service-account", help="What the run's containers run as.")
@click.option("--namespace", help="Of Kubeflow, where it serves several.")
@click.option("--iap-client-id", help="Of Identity-Aware Proxy before Kubeflow.")
@click.option("--iap-desktop-client-id", help="To log in there in a browser.")
@click.option("--pod-token", is_flag=True, help="Log in as the pod that this runs in.")
@click.option("--ca-file", type=click.Path(path_type=Path), help="PEM certificates.")
@click.option("--no-cache", is_flag=True, help="Run every component again.")
@click.option(
    "--wait",
    "wait_seconds",
    type=float,
    is_flag=False,
    flag_value=math.inf,
    metavar="[SECONDS]",
    help="Wait for the end of the run, at most so long.",
)
@options.CONFIG
@options.SET
def submit_command(
    target: str,
    config_file: Path,
    settings: tuple[str, ...],
    values: tuple[str, ...],
    project: str | None,
    region: str | None,
    wait_seconds: float | None,
    **choices: Any,
) -> None:
    """Compile the pipeline, copy its inputs to the cluster, and start it there.

    Secrets come from the environment: KF_PIPELINES_TOKEN, KF_PIPELINES_COOKIES,
    GOOGLE_APPLICATION_CREDENTIALS.
    """
    overrides = dict(recipe.parse_override(text) for text in settings)
    given = {"vertex.project": project, "vertex.region": region}
    overrides |= {key: value for key, value in given.items() if value is not None}
    config = recipe.load_config(config_file, overrides)
    run_values = parameters.parse(values)
    # What the run would refuse after hours is refused here.
    recipe.load_config(config_file, overrides | parameters.as_settings(run_values))
    submit = _submit_to_kubeflow if target == "kubeflow" else _submit_to_vertex
    environment.set_up(quiet=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "pipeline.yaml"
            submit(config, package, run_values, wait_seconds, **choices)
    except (RunFailedError, RunTimeoutError) as error:
        Console(stderr=True).print(str(error), markup=False, soft_wrap=True)
        sys.exit(EXIT_FAILURE)


def _submit_to_kubeflow(
    config: Config,
    package: Path,
    values: dict[str, Any],
    wait_seconds: float | None,
    *,
    host: str | None,
    experiment: str | None,
    run_name: str | None,
    service_account: str | None,
    no_cache: bool,
    **login: Any,
) -> None:
    if host is None:
        raise click.UsageError("--target kubeflow wants --host URL")
    cluster = compilation.cluster_config(config, "kubeflow")
    server = KubeflowServer(host, **login)
    _compile(config, "kubeflow", package)
    submit_to_kubeflow(
        package,
        server=server,
        pipeline_name=config.name,
        experiment=experiment or config.name,
        run_name=run_name or compilation.new_run_name(config),
        parameters=values,
        pipeline_root=cluster.pipeline_root,
        enable_caching=False if no_cache else None,
        service_account=service_account,
        wait_seconds=wait_seconds,
        report=click.echo,
    )


def _submit_to_vertex(
    config: Config,
    package: Path,
    values: dict[str, Any],
    wait_seconds: float | None,
    *,
    experiment: str | None,
    run_name: str | None,
    service_account: str | None,
    no_cache: bool,
    **unused: Any,
) -> None:
    cluster = compilation.cluster_config(config, "vertex")
    meant = [name for name, value in unused.items() if value]
    if meant:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in meant)
        raise click.UsageError(f"{names}: for --target kubeflow alone")
    _compile(config, "vertex", package)
    submit_to_vertex(
        package,
        project=cluster.project,
        region=cluster.region,
        display_name=run_name or compilation.new_run_name(config),
        parameters=values,
        pipeline_root=cluster.pipeline_root,
        enable_caching=False if no_cache else None,
        service_account=service_account or cluster.service_account,
        network=cluster.network,
        experiment=experiment,
        wait_seconds=wait_seconds,
        report=click.echo,
    )


def _compile(config: Config, target: str, package: Path) -> None:
    job = compilation.compile_job(config, target, click.echo)
    compilation.write_job(job, package)
    staging.copy(job.staged, click.echo)
