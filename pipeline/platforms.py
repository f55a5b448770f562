"""The differences between runs on this machine, on Kubeflow and on Vertex AI."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from contracts import fingerprint
from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import OutputPaths

if TYPE_CHECKING:
    from tfx.dsl.components.base.base_component import BaseComponent


@dataclasses.dataclass(frozen=True)
class Platform:
    """The arguments of `create_pipeline` that differ by orchestrator.

    Attributes:
      pipeline_root: Directory that components write to.
      training: Directory of checkpoints that a retried training resumes from.
      pushed: Directory of versions that a model server watches.
      profiles: Directory of the spans' profiles, which the next span is compared with.
      commits: File with the `contracts.commits.Commits` that a pushed version carries.
      beam_args: Beam arguments of every component, the same wherever Beam runs, because
        they are part of the cache key.
      enable_cache: Whether a component with unchanged inputs is skipped.
      parameter: Makes a run's parameter from its name and default; returns the default
        if runs have no parameters.
      library_versions: Returns the versions of libraries for the cache key; empty for
        an orchestrator, whose cache key has the image's name.
      metadata: Connection to ML Metadata; None if the orchestrator sets it.
      trainer: Class of the Trainer, with the arguments of TFX's; None is TFX's.
      trainer_config: Values that this class needs in `custom_config`.
      deploy: Makes the component that deploys the pushed model from Pusher's inputs;
        None deploys nothing.
    """

    pipeline_root: str
    training: str
    pushed: str
    profiles: str
    commits: str
    beam_args: tuple[str, ...]
    enable_cache: bool = True
    parameter: Callable[[str, Any], Any] = lambda name, default: default
    library_versions: Callable[[Iterable[str]], dict[str, str]] = lambda names: {}
    metadata: Any = None
    trainer: Callable[..., BaseComponent] | None = None
    trainer_config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    deploy: Callable[..., BaseComponent] | None = None


def local_platform(paths: OutputPaths, beam: BeamConfig) -> Platform:
    """Returns the platform of a run on this machine.

    Raises:
      UsageError: Beam's job server is missing.
    """
    # TFX and Beam take seconds to import, and a wrong setting is reported before.
    from tfx import v1 as tfx

    from pipeline.beam import configured_runner

    return Platform(
        pipeline_root=str(paths.artifacts),
        training=str(paths.training),
        pushed=str(paths.pushed),
        profiles=str(paths.profiles),
        commits=str(paths.commits),
        library_versions=fingerprint.library_versions,
        beam_args=configured_runner.configure(beam_arguments(beam)),
        metadata=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(paths.metadata)
        ),
    )
