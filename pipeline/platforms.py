"""Where a pipeline runs: all that differs from one orchestrator to another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from modules import fingerprint
from pipeline.beam import IN_PROCESS, beam_arguments
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import OutputPaths

if TYPE_CHECKING:
    from tfx.dsl.components.base.base_component import BaseComponent


def _literal(name: str, default: Any) -> Any:
    """Takes a parameter of the run as it is in the configuration."""
    del name
    return default


def _no_versions(names: Iterable[str]) -> dict[str, str]:
    """Leaves the libraries to the image, whose name the orchestrator's cache counts."""
    del names
    return {}


@dataclasses.dataclass(frozen=True)
class Platform:
    """What `create_pipeline` is told of the place that the pipeline runs at.

    Attributes:
      pipeline_root: Where components write.
      training: Where checkpoints are kept that a retry goes on from.
      pushed: The directory of versions that a model server watches.
      enable_cache: Whether a component is left out that ran on the same before.
      parameter: Makes a parameter of the run of its name and default; the default
        itself where a run has no parameters.
      library_versions: Returns the versions of libraries that count in the cache key.
      beam_args: Of every component that runs on Beam.
      metadata: Connection to ML Metadata, where the pipeline brings its own.
      trainer: The class of the Trainer, with the arguments of TFX's own; None is that.
      trainer_config: What that class wants in `custom_config`.
      deploy: Makes the component that deploys the pushed model, of Pusher's inputs.
    """

    pipeline_root: str
    training: str
    pushed: str
    enable_cache: bool = True
    parameter: Callable[[str, Any], Any] = _literal
    library_versions: Callable[[Iterable[str]], dict[str, str]] = _no_versions
    beam_args: tuple[str, ...] = IN_PROCESS
    metadata: Any = None
    trainer: Callable[..., BaseComponent] | None = None
    trainer_config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    deploy: Callable[..., BaseComponent] | None = None


def local_platform(paths: OutputPaths, beam: BeamConfig) -> Platform:
    """Returns this machine, below an output directory.

    Raises:
      UsageError: What Beam's runner needs is not here.
    """
    from tfx import v1 as tfx

    from pipeline.beam import configured_runner

    return Platform(
        pipeline_root=str(paths.artifacts),
        training=str(paths.training),
        pushed=str(paths.pushed),
        library_versions=fingerprint.library_versions,
        beam_args=configured_runner.configure(beam_arguments(beam)),
        metadata=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(paths.metadata)
        ),
    )
