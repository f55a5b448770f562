"""Extends TFX's compiler of pipeline specs: retries, defaults, smaller jobs."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable
from typing import Any

from tfx import v1 as tfx

from components.artifacts import HTML
from components.champion import Champion, ChampionCheck
from components.report import Report
from contracts import fingerprint
from pipeline import entrypoint
from pipeline.config.orchestrators import OrchestratorConfig

# The pushed models can change while the inputs of the first three do not. Report
# succeeds even if it cannot write the page, so its cache could hold an error.
_NEVER_CACHED = (
    Champion.__name__,
    ChampionCheck.__name__,
    Report.__name__,
)


class DagRunner(tfx.orchestration.experimental.KubeflowV2DagRunner):
    """Compiles a pipeline with retries and with the parameters' defaults.

    Args:
      settings: Image, retries and pipeline root.
      component_file: Returns the path of a component's file from its hash.
      runs_drivers: Whether the orchestrator runs `preCacheCheck`, a container that
        looks at ExampleGen's files before the cache is read.
      keeps_parameters: Whether components keep their parameters in the job. Kubeflow's
        workflow controller repeats them six times, and must hold the state of a run in
        1 MiB; Vertex AI shows them.

    Attributes:
      component_files: Content of each component's file by its path, after `run`.
    """

    def __init__(
        self,
        settings: OrchestratorConfig,
        *,
        component_file: Callable[[str], str],
        runs_drivers: bool,
        keeps_parameters: bool,
    ) -> None:
        super().__init__(
            tfx.orchestration.experimental.KubeflowV2DagRunnerConfig(
                default_image=settings.image,
                default_commands=["python", "-m", entrypoint.__name__],
                use_pipeline_spec_2_1=True,
            )
        )
        self._settings = settings
        self._component_file = component_file
        self._runs_drivers = runs_drivers
        self._keeps_parameters = keeps_parameters
        self.component_files: dict[str, Any] = {}

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
        spec = job["pipelineSpec"]
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
            self._move_to_file(spec, task)
        # Orchestrators display outputs of the type `system.HTML` only.
        for component in spec["components"].values():
            outputs = component.get("outputDefinitions", {}).get("artifacts", {})
            for output in outputs.values():
                if HTML.TYPE_NAME in output["artifactType"].get("instanceSchema", ""):
                    output["artifactType"] = {
                        "schemaTitle": "system.HTML",
                        "schemaVersion": "0.0.1",
                    }
        if not self._runs_drivers:
            for executor in spec["deploymentSpec"]["executors"].values():
                executor["container"].pop("lifecycle", None)
        # TFX leaves the defaults of parameters out of a spec 2.1.0.
        parameters = spec["root"].get("inputDefinitions", {}).get("parameters", {})
        for node in pipeline.components:
            for value in node.exec_properties.values():
                if isinstance(value, tfx.dsl.experimental.RuntimeParameter):
                    parameters[value.name]["defaultValue"] = value.default
        if write_out:
            path = os.path.join(self._output_dir, self._output_filename)
            with tfx.dsl.io.fileio.open(path, "w") as file:
                json.dump(job, file, indent=1, sort_keys=True)
        return job

    def _move_to_file(self, spec: dict[str, Any], task: dict[str, Any]) -> None:
        """Moves executor, types and parameters of a task from the job to a file.

        The file is named after the hash of its content, so a change of the content
        changes the cache key.
        """
        component = spec["components"][task["componentRef"]["name"]]
        executors = spec["deploymentSpec"]["executors"]
        arguments = executors[component["executorLabel"]]["container"]["args"]
        values = {
            option: arguments[arguments.index(option) + 1]
            for option in (entrypoint.EXECUTOR, entrypoint.INPUTS_SPEC)
            if option in arguments
        }
        outputs = component.get("outputDefinitions", {}).get("artifacts", {})
        content: entrypoint.ComponentFile = {
            "executor": values[entrypoint.EXECUTOR],
            "inputs": json.loads(values.get(entrypoint.INPUTS_SPEC, "{}")),
            "outputs": copy.deepcopy(outputs),
            "parameters": {},
        }
        if not self._keeps_parameters:
            content["parameters"] = _take_constants(task, component)
            _drop_descriptions(component)
        path = self._component_file(fingerprint.of_json(content))
        self.component_files[path] = content
        arguments[:] = [
            f"{entrypoint.COMPONENT_FILE}{path}",
            *(
                argument
                for argument in arguments
                if argument not in (*values, *values.values())
            ),
        ]


def _take_constants(task: dict[str, Any], component: dict[str, Any]) -> dict[str, Any]:
    """Removes the parameters that are the same in every run, and returns them."""
    values = task.get("inputs", {}).get("parameters", {})
    constants = {
        name: source["runtimeValue"]["constant"]
        for name, source in values.items()
        if "constant" in source.get("runtimeValue", {})
    }
    for name in constants:
        del values[name]
        del component["inputDefinitions"]["parameters"][name]
    return constants


def _drop_descriptions(component: dict[str, Any]) -> None:
    """Removes the descriptions of properties from the types of artifacts."""
    for side in ("inputDefinitions", "outputDefinitions"):
        for definition in component.get(side, {}).get("artifacts", {}).values():
            schema = definition["artifactType"]["instanceSchema"]
            schema = re.sub(r"\n +description: .*", "", schema)
            definition["artifactType"]["instanceSchema"] = schema
