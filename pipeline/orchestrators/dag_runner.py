"""TFX's compiler of pipeline specs, with what it leaves out."""

from __future__ import annotations

import json
import os
from typing import Any

from tfx import v1 as tfx

from components.artifacts import HTML
from components.champion import Champion, ChampionCheck
from pipeline import entrypoint
from pipeline.config.orchestrators import OrchestratorConfig

# What is pushed can change while the inputs of these stay the same.
_NEVER_CACHED = (Champion.__name__, ChampionCheck.__name__)


class DagRunner(tfx.orchestration.experimental.KubeflowV2DagRunner):
    """Compiles a pipeline with retries and with the parameters' defaults.

    Args:
      settings: Image, retries and pipeline root.
      runs_drivers: Whether the orchestrator runs `preCacheCheck`, a container that
        looks at ExampleGen's files before the cache is read.
    """

    def __init__(self, settings: OrchestratorConfig, *, runs_drivers: bool) -> None:
        super().__init__(
            tfx.orchestration.experimental.KubeflowV2DagRunnerConfig(
                default_image=settings.image,
                default_commands=["python", "-m", entrypoint.__name__],
                use_pipeline_spec_2_1=True,
            )
        )
        self._settings = settings
        self._runs_drivers = runs_drivers

    def run(
        self, pipeline: tfx.dsl.Pipeline, *, write_out: bool = True
    ) -> dict[str, Any]:
        """Compiles a pipeline.

        Args:
          pipeline: The pipeline.
          write_out: Whether to write the job where the `tfx` command expects it.

        Returns:
          The `PipelineJob`.
        """
        job = super().run(pipeline, write_out=False)
        self._complete(job["pipelineSpec"])
        _add_defaults(job["pipelineSpec"], pipeline)
        if write_out:
            path = os.path.join(self._output_dir, self._output_filename)
            with tfx.dsl.io.fileio.open(path, "w") as file:
                json.dump(job, file, indent=1, sort_keys=True)
        return job

    def _complete(self, spec: dict[str, Any]) -> None:
        spec["defaultPipelineRoot"] = self._settings.pipeline_root
        for name, task in spec["root"]["dag"]["tasks"].items():
            if self._settings.retries:
                task["retryPolicy"] = {
                    "maxRetryCount": self._settings.retries,
                    "backoffDuration": "30s",
                    "backoffFactor": 2.0,
                    "backoffMaxDuration": "600s",
                }
            if name in _NEVER_CACHED:
                task.pop("cachingOptions", None)
        _show_pages(spec)
        if not self._runs_drivers:
            for executor in spec["deploymentSpec"]["executors"].values():
                executor["container"].pop("lifecycle", None)


def _show_pages(spec: dict[str, Any]) -> None:
    """Gives outputs of the type `HTML` the type that orchestrators display."""
    for component in spec["components"].values():
        outputs = component.get("outputDefinitions", {}).get("artifacts", {})
        for output in outputs.values():
            if HTML.TYPE_NAME in output["artifactType"].get("instanceSchema", ""):
                output["artifactType"] = {
                    "schemaTitle": entrypoint.HTML_TITLE,
                    "schemaVersion": "0.0.1",
                }


def _add_defaults(spec: dict[str, Any], pipeline: tfx.dsl.Pipeline) -> None:
    """Adds the parameters' defaults, which TFX leaves out of a spec 2.1.0."""
    declared = spec["root"]["inputDefinitions"]["parameters"]
    for component in pipeline.components:
        for value in component.exec_properties.values():
            if isinstance(value, tfx.dsl.experimental.RuntimeParameter):
                declared[value.name]["defaultValue"] = value.default
