"""From a configuration to a job that a cluster runs."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from pipeline.config.errors import UsageError
from pipeline.config.orchestrators import ClusterConfig
from pipeline.config.paths import ClusterPaths, OutputPaths
from pipeline.config.recipe import Config
from pipeline.orchestrators import staging
from pipeline.orchestrators.kubeflow import compile as kubeflow
from pipeline.orchestrators.vertex import compile as vertex

TARGETS = ("kubeflow", "vertex")
# pipeline_builder.py of TFX.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")


@dataclasses.dataclass(frozen=True)
class CompiledJob:
    """A pipeline as a cluster takes it.

    Attributes:
      content: The `PipelineJob`, with the pipeline spec in it.
      platforms: What only Kubernetes understands of it; None where there is nothing.
      staged: What must be copied before it can run.
    """

    content: dict[str, Any]
    platforms: dict[str, Any] | None
    staged: staging.StagedInputs

    @property
    def spec(self) -> dict[str, Any]:
        """The pipeline spec."""
        return self.content["pipelineSpec"]


def compile_job(
    config: Config,
    target: str,
    report: Callable[[str], None] = lambda _: None,
    *,
    write_out: bool = False,
) -> CompiledJob:
    """Compiles the pipeline of a configuration.

    Nothing of the cluster is asked, so that it works without a network.

    Args:
      config: The settings, with a section of the target's name.
      target: One of `TARGETS`.
      report: Called with what a person would want to know.
      write_out: Whether to write `pipeline.json`, where the `tfx` command wants it.

    Raises:
      UsageError: The target's settings are missing, or a source cannot be read.
    """
    cluster = cluster_config(config, target)
    staged = stage_plan(config, cluster, report)
    lib = _module(target)
    runner = lib.build_runner(config)
    dag = lib.build_pipeline(config, staged.inputs)
    content = runner.run(dag, write_out=write_out)
    return CompiledJob(content, lib.build_platforms(config), staged)


def stage_plan(
    config: Config,
    cluster: ClusterConfig,
    report: Callable[[str], None] = lambda _: None,
) -> staging.StagedInputs:
    """Settles what a run reads, and where the cluster will find it."""
    from pipeline.inputs.resolve import resolve_inputs

    inputs = resolve_inputs(config, OutputPaths.of(config), report)
    return staging.plan(inputs, ClusterPaths(cluster.pipeline_root, config.name))


def cluster_config(config: Config, target: str) -> Any:
    """Returns the settings of a target.

    Raises:
      UsageError: There are none, or the pipeline's name is none that it allows.
    """
    found = getattr(config, target)
    if found is None:
        raise UsageError(
            f"the config has no section {target}; it needs at least image and "
            f"pipeline_root, as --set {target}.image=IMAGE "
            f"--set {target}.pipeline_root=gs://BUCKET/FOLDER"
        )
    if not _NAME.fullmatch(config.name):
        raise UsageError(
            f"name is {config.name!r}; on a cluster it may have lower-case letters, "
            "digits and dashes: set another with --set name=NAME"
        )
    return found


def new_run_name(config: Config) -> str:
    """Returns a name that no other run has: the pipeline's, and the time."""
    return f"{config.name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def write_job(job: CompiledJob, path: Path) -> None:
    """Writes a compiled job.

    Args:
      job: The job.
      path: `.yaml` takes the pipeline spec, as both clusters read it; `.json` the
        `PipelineJob`, as Vertex reads it.

    Raises:
      UsageError: The name ends in neither.
    """
    if path.suffix in (".yaml", ".yml"):
        documents = [job.spec, *([job.platforms] if job.platforms else [])]
        text = yaml.safe_dump_all(documents, sort_keys=True)
    elif path.suffix == ".json":
        text = json.dumps(job.content, indent=1, sort_keys=True)
    else:
        raise UsageError(f"{path}: allowed are .yaml, and .json for Vertex")
    path.write_text(text, encoding="utf-8")


def _module(target: str) -> Any:
    return {"kubeflow": kubeflow, "vertex": vertex}[target]
