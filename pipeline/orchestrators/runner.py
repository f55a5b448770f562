"""TFX's Kubeflow runner, with what it leaves out of a job."""

from __future__ import annotations

import json
import os
from typing import Any

from tfx import v1 as tfx

from components.champion import Champion, ChampionCheck
from pipeline import entrypoint
from pipeline.config.orchestrators import ClusterConfig

_COMMAND = ("python", "-m", entrypoint.__name__)
_FIRST_WAIT = "30s"
_LONGEST_WAIT = "600s"


class ClusterRunner(tfx.orchestration.experimental.KubeflowV2DagRunner):
    """Compiles pipelines with retries, and for clusters without drivers."""

    def __init__(self, config: ClusterConfig, *, has_driver_hook: bool) -> None:
        """Keeps the settings.

        Args:
          config: Image, retries, pipeline root.
          has_driver_hook: Whether the cluster runs `preCacheCheck`, by which
            ExampleGen looks at its files before the cache is asked.
        """
        super().__init__(
            tfx.orchestration.experimental.KubeflowV2DagRunnerConfig(
                default_image=config.image,
                default_commands=list(_COMMAND),
                use_pipeline_spec_2_1=True,
            )
        )
        self._cluster = config
        self._has_driver_hook = has_driver_hook

    def run(
        self,
        pipeline: tfx.dsl.Pipeline,
        parameter_values: dict[str, Any] | None = None,
        write_out: bool = True,
    ) -> dict[str, Any]:
        """Compiles a pipeline.

        Args:
          pipeline: The pipeline.
          parameter_values: Of the run's parameters, in the place of their defaults.
          write_out: Whether to write the job where the `tfx` command wants it.

        Returns:
          The `PipelineJob`.
        """
        job = super().run(pipeline, parameter_values, write_out=False)
        self._complete(job["pipelineSpec"])
        _add_defaults(job["pipelineSpec"], pipeline)
        if write_out:
            path = os.path.join(self._output_dir, self._output_filename)
            with tfx.dsl.io.fileio.open(path, "w") as file:
                json.dump(job, file, indent=1, sort_keys=True)
        return job

    def _complete(self, spec: dict[str, Any]) -> None:
        spec["defaultPipelineRoot"] = self._cluster.pipeline_root
        for name, task in spec["root"]["dag"]["tasks"].items():
            if self._cluster.retries:
                task["retryPolicy"] = {
                    "maxRetryCount": self._cluster.retries,
                    "backoffDuration": _FIRST_WAIT,
                    "backoffFactor": 2.0,
                    "backoffMaxDuration": _LONGEST_WAIT,
                }
            # What is in production shows in none of its inputs.
            if name in (Champion.__name__, ChampionCheck.__name__):
                task.pop("cachingOptions", None)
        if not self._has_driver_hook:
            for executor in spec["deploymentSpec"]["executors"].values():
                executor["container"].pop("lifecycle", None)


def _add_defaults(spec: dict[str, Any], pipeline: tfx.dsl.Pipeline) -> None:
    """Writes the parameters' defaults, which TFX leaves out of a spec 2.1.0."""
    declared = spec["root"]["inputDefinitions"]["parameters"]
    for component in pipeline.components:
        for value in component.exec_properties.values():
            if isinstance(value, tfx.dsl.experimental.RuntimeParameter):
                declared[value.name]["defaultValue"] = value.default


def parameter(name: str, default: Any) -> tfx.dsl.experimental.RuntimeParameter:
    """Makes a parameter that can be given when a run is started."""
    return tfx.dsl.experimental.RuntimeParameter(
        name=name, ptype=type(default), default=default
    )
