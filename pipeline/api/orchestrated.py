"""Jobs for Kubeflow Pipelines and Vertex AI."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from pipeline.api.arguments import checked
from pipeline.api.quiet import quiet
from pipeline.api.recipes import Recipe
from pipeline.config.orchestrators import Orchestrator
from pipeline.orchestrators import compilation
from pipeline.orchestrators.compilation import CompiledJob

logger = logging.getLogger(__name__)


@checked
def compile_job(
    recipe: Recipe,
    orchestrator: Orchestrator,
    package: str | Path,
    *,
    report: Callable[[str], None] = logger.info,
) -> CompiledJob:
    """Compiles the pipeline for an orchestrator, as `compile` does; needs no network.

    Args:
      recipe: The recipe.
      orchestrator: `kubeflow` or `vertex`.
      package: The file of the job, in YAML or JSON.
      report: Called with a line for the user.

    Returns:
      The job. `bert-pipeline compile --stage` also copies the files that a run needs.

    Raises:
      UsageError: The recipe lacks a setting of the orchestrator, or a file cannot be
        written.
    """
    path = Path(package)
    compilation.check_package(path)
    with quiet():
        job = compilation.compile_job(recipe.settings, orchestrator, report)
        compilation.write_job(job, path)
    return job
