"""Compiles the pipeline of a configuration into a job for an orchestrator."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from contracts import fingerprint
from contracts.errors import SettingError, UsageError
from contracts.storage import files
from pipeline import entrypoint
from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from pipeline.config.orchestrators import VERTEX, OrchestratorConfig, VertexConfig
from pipeline.config.paths import OrchestratorPaths, OutputPaths
from pipeline.config.recipe import Config
from pipeline.inputs.resolve import check_sources, resolve_inputs
from pipeline.operations.provenance import check_commits, warn_of_commits
from pipeline.orchestrators import staging
from pipeline.platforms import Platform


@dataclasses.dataclass(frozen=True)
class CompiledJob:
    """A compiled pipeline.

    Attributes:
      content: The `PipelineJob`, with the pipeline spec in it.
      platform_spec: Settings for Kubernetes that the pipeline spec has no field for;
        None if no such setting is set.
      staged: The inputs, and the copies to make before a run.
    """

    content: dict[str, Any]
    platform_spec: dict[str, Any] | None
    staged: staging.StagedInputs

    @property
    def spec(self) -> dict[str, Any]:
        """The pipeline spec."""
        return self.content["pipelineSpec"]


def compile_job(
    config: Config,
    orchestrator: str,
    report: Callable[[str], None] = lambda _: None,
    *,
    write_out: bool = False,
) -> CompiledJob:
    """Compiles the pipeline of a configuration, without requests to the orchestrator.

    Args:
      config: The settings, with a section named after the orchestrator.
      orchestrator: One of `ORCHESTRATORS`.
      report: Called with messages about the inputs.
      write_out: Whether to write `pipeline.json` where the `tfx` command expects it.

    Raises:
      UsageError: The orchestrator's section is missing, the pipeline's name is not
        allowed there, a source cannot be read, or a policy requires a commit.
    """
    settings = orchestrator_settings(config, orchestrator)
    commits = check_commits(config)
    warn_of_commits(commits)
    check_sources(config)
    # TFX takes seconds to import; an error of the settings is reported before.
    from pipeline.orchestrators.dag_runner import DagRunner
    from pipeline.orchestrators.kubeflow import compiler as kubeflow
    from pipeline.orchestrators.vertex import compiler as vertex

    inputs = resolve_inputs(config, OutputPaths.of(config), report)
    paths = OrchestratorPaths(settings.pipeline_root, config.name)

    def find_file(kind: str, key: str) -> str:
        return paths.staged(kind, f"{key[: staging.KEY_LENGTH]}.json")

    is_vertex = orchestrator == VERTEX
    # The file of Beam's arguments has the same path for any arguments, so a change of
    # the runner changes no cache key. The path depends on the image: a running job of
    # another image keeps its arguments, as Dataflow's workers must have the same image.
    key = fingerprint.of_text(paths.name, orchestrator, settings.image)
    beam_file = find_file("beam", key)
    staged = dataclasses.replace(
        staging.plan(inputs, paths),
        beam_file=beam_file,
        beam_arguments=beam_arguments(_beam_config(settings, paths), is_here=False),
    )
    # Another commit runs AtomicPusher again, which names it in a new version.
    source = commits.model_dump(mode="json")
    commits_file = find_file("commits", fingerprint.of_json(source))
    platform = Platform(
        pipeline_root=paths.root,
        training=paths.training,
        pushed=settings.pushed or paths.pushed,
        profiles=paths.profiles,
        commits=commits_file,
        enable_cache=settings.cache,
        parameter=_runtime_parameter,
        beam_args=(f"{entrypoint.BEAM_FILE}{beam_file}",),
    )
    create_dag = vertex.create_dag if is_vertex else kubeflow.create_dag
    dag = create_dag(config, staged.inputs, platform)
    runner = DagRunner(
        settings,
        component_file=functools.partial(find_file, "components"),
        runs_drivers=is_vertex,
        keeps_parameters=is_vertex,
    )
    content = runner.run(dag, write_out=write_out)
    platform_spec = None if is_vertex else kubeflow.platform_spec(config)
    records = {**runner.component_files, commits_file: source}
    staged = dataclasses.replace(staged, records=records)
    return CompiledJob(content, platform_spec, staged)


def _beam_config(settings: OrchestratorConfig, paths: OrchestratorPaths) -> BeamConfig:
    """Returns the settings of Beam; Dataflow's default to those of the orchestrator."""
    beam = settings.beam
    defaults = {"temp_location": paths.temporary, "image": settings.image}
    if isinstance(settings, VertexConfig):
        names = ("project", "region", "service_account")
        defaults |= {name: getattr(settings, name) for name in names}
    dataflow = beam.dataflow.model_copy(
        update=defaults | beam.dataflow.model_dump(exclude_none=True)
    )
    return beam.model_copy(update={"dataflow": dataflow})


def _runtime_parameter(name: str, default: Any) -> Any:
    from tfx import v1 as tfx  # already imported by `compile_job`, not before

    return tfx.dsl.experimental.RuntimeParameter(
        name=name, ptype=type(default), default=default
    )


def orchestrator_settings(config: Config, orchestrator: str) -> Any:
    """Returns the settings of an orchestrator, `KubeflowConfig` or `VertexConfig`.

    Raises:
      UsageError: The config has no section of the orchestrator, or the pipeline's name
        is not allowed there.
    """
    settings = getattr(config, orchestrator)
    if settings is None:
        raise UsageError(
            orchestrator,
            "the recipe has no such section",
            advice=f"set at least `{orchestrator}.image=IMAGE` and "
            f"`{orchestrator}.pipeline_root=gs://BUCKET/FOLDER`",
            name="E-option-missing",
        )
    # The rule of TFX's `pipeline_builder.py`.
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,127}", config.name):
        raise SettingError(
            "name",
            repr(config.name),
            f"lower-case letters, digits and dashes for {orchestrator}",
            advice="use `name=NAME`",
        )
    return settings


def write_job(job: CompiledJob, path: Path) -> None:
    """Writes a compiled job.

    Args:
      job: The job.
      path: A `.yaml` file for the pipeline spec, which both orchestrators read; a
        `.json` file for the `PipelineJob`, which Vertex AI reads.

    Raises:
      UsageError: The file has another extension, or cannot be written.
    """
    check_package(path)
    if path.suffix == ".json":
        text = json.dumps(job.content, indent=1, sort_keys=True)
    else:
        documents = [job.spec, *([job.platform_spec] if job.platform_spec else [])]
        text = yaml.safe_dump_all(documents, sort_keys=True)
    try:
        files.write(str(path.resolve()), text)  # replaces the target of a symbolic link
    except OSError as error:
        raise UsageError(
            "package",
            f"{path} cannot be written ({error.strerror})",
            advice="name another file",
            name="E-storage-failed",
        ) from error


def check_package(path: Path) -> None:
    """Checks the name of a file for `write_job`.

    Raises:
      UsageError: The extension is not allowed, or it is a directory.
    """
    if path.suffix not in (".yaml", ".yml", ".json"):
        allowed = "a name that ends in .yaml, .yml or, for Vertex, .json"
        raise UsageError("package", str(path), allowed, name="E-format-unknown")
    if path.is_dir():
        raise UsageError(
            "package",
            f"{path} is a directory",
            advice="name a file",
            name="E-storage-failed",
        )
