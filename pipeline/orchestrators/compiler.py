"""What the orchestrators share when the pipeline is compiled for them."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from tfx import v1 as tfx

from modules import fingerprint
from pipeline import entrypoint
from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from pipeline.config.orchestrators import OrchestratorConfig
from pipeline.config.paths import OrchestratorPaths
from pipeline.config.recipe import Config
from pipeline.inputs.resolve import ResolvedInputs
from pipeline.orchestrators.dag_runner import DagRunner
from pipeline.orchestrators.staging import KEY_LENGTH
from pipeline.pipeline import create_pipeline
from pipeline.platforms import Platform

_Settings = TypeVar("_Settings", bound=OrchestratorConfig)


class Compiler(Generic[_Settings]):
    """Compiles the pipeline for one orchestrator.

    Args:
      settings: The orchestrator's section of the recipe.
      paths: Paths below its pipeline root.

    Attributes:
      runs_drivers: Whether the orchestrator runs the drivers of components.
    """

    runs_drivers: ClassVar[bool]

    def __init__(self, settings: _Settings, paths: OrchestratorPaths) -> None:
        self._settings = settings
        self._paths = paths

    def compile(
        self, config: Config, inputs: ResolvedInputs, *, write_out: bool
    ) -> dict[str, Any]:
        """Compiles the pipeline.

        Args:
          config: All settings.
          inputs: Sources that the orchestrator can read.
          write_out: Whether to write the job where the `tfx` command expects it.

        Returns:
          The `PipelineJob`.
        """
        platform = Platform(
            pipeline_root=self._paths.root,
            training=self._paths.training,
            pushed=self._settings.pushed or self._paths.pushed,
            enable_cache=self._settings.cache,
            parameter=_runtime_parameter,
            beam_args=(entrypoint.BEAM_FILE + self.beam_file,),
            **self._platform_arguments(),
        )
        dag = create_pipeline(config, inputs, platform)
        self._adjust(dag, config, inputs)
        runner = DagRunner(self._settings, runs_drivers=self.runs_drivers)
        return runner.run(dag, write_out=write_out)

    @property
    def beam_file(self) -> str:
        """The file with Beam's arguments, at the same path for any of them.

        Another image has another file: a job that runs meanwhile keeps the arguments of
        its own, which Dataflow's workers must have, too.
        """
        key = fingerprint.of_text(self._paths.name, self._settings.image)[:KEY_LENGTH]
        return self._paths.staged("beam", f"{key}.json")

    def beam_arguments(self) -> tuple[str, ...]:
        """Returns the arguments of Beam, which are not in the compiled job."""
        return beam_arguments(self._beam(), is_here=False)

    def _beam(self) -> BeamConfig:
        """Returns the settings of Beam."""
        return self._settings.beam

    def _platform_arguments(self) -> dict[str, Any]:
        """Returns further arguments of `Platform`; none by default."""
        return {}

    def _adjust(
        self, dag: tfx.dsl.Pipeline, config: Config, inputs: ResolvedInputs
    ) -> None:
        """Adds what `create_pipeline` has no argument for; nothing by default."""

    def platform_spec(self) -> dict[str, Any] | None:
        """Returns Kubernetes settings that the pipeline spec has no field for."""
        return None


def _runtime_parameter(
    name: str, default: Any
) -> tfx.dsl.experimental.RuntimeParameter:
    return tfx.dsl.experimental.RuntimeParameter(
        name=name, ptype=type(default), default=default
    )
