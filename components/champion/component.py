"""Champion: the model in production, as an artifact, on every orchestrator."""

from __future__ import annotations

from tfx import types
from tfx import v1 as tfx
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import component_spec

from components.champion import executor
from components.champion.driver import Driver

_Model = tfx.types.standard_artifacts.Model


class ChampionSpec(component_spec.ComponentSpec):
    """Inputs, outputs and parameters of Champion."""

    PARAMETERS = {
        executor.DIRECTORY_KEY: component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {executor.CANDIDATE_KEY: component_spec.ChannelParameter(type=_Model)}
    OUTPUTS = {executor.MODEL_KEY: component_spec.ChannelParameter(type=_Model)}


class Champion(base_component.BaseComponent):
    """Takes the model that was pushed last, the candidate itself aside.

    A Resolver would do so from ML Metadata, which Kubeflow does not offer; what serves
    is in the directory that is pushed to. An orchestrator without drivers must not
    cache this component: its inputs do not tell of a new version.
    """

    SPEC_CLASS = ChampionSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)
    DRIVER_CLASS = Driver

    def __init__(self, candidate: types.BaseChannel, directory: str) -> None:
        """Declares the component.

        Args:
          candidate: The model that is to be compared.
          directory: Holds the versions that were pushed.

        Its output `model` holds a copy of the champion, and nothing where there is
        none yet.
        """
        super().__init__(
            ChampionSpec(
                candidate=candidate,
                directory=directory,
                model=types.Channel(type=_Model),
            )
        )
