"""Compiles the pipeline of a configuration into a job for an orchestrator."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from pipeline.config.errors import UsageError
from pipeline.config.paths import OrchestratorPaths, OutputPaths
from pipeline.config.recipe import Config
from pipeline.orchestrators import staging

ORCHESTRATORS = ("kubeflow", "vertex")
# pipeline_builder.py of TFX.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")


@dataclasses.dataclass(frozen=True)
class CompiledJob:
    """A compiled pipeline.

    Attributes:
      content: The `PipelineJob`, with the pipeline spec in it.
      platform_spec: Settings for Kubernetes that the pipeline spec has no field for;
        None if there are none.
      staged: The inputs, with the copies to make before the job can run.
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
        allowed there, or a source cannot be read.
    """
    settings = orchestrator_settings(config, orchestrator)
    from pipeline.inputs.resolve import resolve_inputs
    from pipeline.orchestrators.kubeflow.compiler import KubeflowCompiler
    from pipeline.orchestrators.vertex.compiler import VertexCompiler

    inputs = resolve_inputs(config, OutputPaths.of(config), report)
    paths = OrchestratorPaths(settings.pipeline_root, config.name)
    staged = staging.plan(inputs, paths)
    compiler_class = KubeflowCompiler if orchestrator == "kubeflow" else VertexCompiler
    compiler = compiler_class(settings, paths)
    content = compiler.compile(config, staged.inputs, write_out=write_out)
    staged = dataclasses.replace(
        staged,
        beam_file=compiler.beam_file,
        beam_arguments=compiler.beam_arguments(),
    )
    return CompiledJob(content, compiler.platform_spec(), staged)


def orchestrator_settings(config: Config, orchestrator: str) -> Any:
    """Returns the settings of an orchestrator, `KubeflowConfig` or `VertexConfig`.

    Raises:
      UsageError: The config has none, or the pipeline's name is not allowed there.
    """
    settings = getattr(config, orchestrator)
    if settings is None:
        raise UsageError(
            f"the config has no section {orchestrator}; it needs at least image and "
            f"pipeline_root, as --set {orchestrator}.image=IMAGE "
            f"--set {orchestrator}.pipeline_root=gs://BUCKET/FOLDER"
        )
    if not _NAME.fullmatch(config.name):
        raise UsageError(
            f"name is {config.name!r}; {orchestrator} allows lower-case letters, "
            "digits and dashes: set another with --set name=NAME"
        )
    return settings


def write_job(job: CompiledJob, path: Path) -> None:
    """Writes a compiled job.

    Args:
      job: The job.
      path: A `.yaml` file for the pipeline spec, which both orchestrators read; a
        `.json` file for the `PipelineJob`, which Vertex AI reads.

    Raises:
      UsageError: The file has another extension.
    """
    from modules import files

    check_package(path)
    if path.suffix == ".json":
        text = json.dumps(job.content, indent=1, sort_keys=True)
    else:
        documents = [job.spec, *([job.platform_spec] if job.platform_spec else [])]
        text = yaml.safe_dump_all(documents, sort_keys=True)
    files.write(str(path.resolve()), text)


def check_package(path: Path) -> None:
    """Checks the extension of a file for `write_job`.

    Raises:
      UsageError: It is not allowed.
    """
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise UsageError(f"--output {path}: allowed are .yaml, and .json for Vertex")
