"""Champion: the model in production, as an artifact, on every orchestrator."""

from __future__ import annotations

from tfx import types
from tfx import v1 as tfx
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import component_spec

from components.champion import driver, executor

_Model = tfx.types.standard_artifacts.Model
_PARAMETERS = {
    key: component_spec.ExecutionParameter(type=str)
    for key in (
        executor.DIRECTORY_KEY,
        executor.FIND_DIFFERENCE_KEY,
        executor.EXPECTED_KEY,
        executor.INCOMPATIBLE_KEY,
    )
}


class ChampionSpec(component_spec.ComponentSpec):
    """Inputs, outputs and parameters of Champion."""

    PARAMETERS = _PARAMETERS
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
    DRIVER_CLASS = driver.Driver

    def __init__(
        self,
        *,
        candidate: types.BaseChannel,
        directory: str,
        find_difference: str,
        expected: str,
        incompatible: str = executor.IGNORE,
    ) -> None:
        """Declares the component.

        Args:
          candidate: The model that is to be compared.
          directory: Holds the versions that were pushed.
          find_difference: Import path of a function from a model's directory and
            `expected` to the reason why the two cannot be compared; empty where they
            can.
          expected: JSON of what the champion must be.
          incompatible: `ignore` compares with nothing if there is such a reason,
            `refuse` fails.

        Its output `model` holds a copy of the champion, and nothing where there is
        none yet or it is incompatible.
        """
        super().__init__(
            ChampionSpec(
                candidate=candidate,
                directory=directory,
                find_difference=find_difference,
                expected=expected,
                incompatible=incompatible,
                model=types.Channel(type=_Model),
            )
        )


class ChampionCheckSpec(component_spec.ComponentSpec):
    """Parameters of ChampionCheck."""

    PARAMETERS = _PARAMETERS
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS: dict[str, component_spec.ChannelParameter] = {}


class ChampionCheck(base_component.BaseComponent):
    """Fails where the version that was pushed last is of another task.

    Champion knows the candidate and comes after training; this component comes before
    it. An orchestrator without drivers must not cache it either.
    """

    SPEC_CLASS = ChampionCheckSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.CheckExecutor)
    DRIVER_CLASS = driver.CheckDriver

    def __init__(self, *, directory: str, find_difference: str, expected: str) -> None:
        """Declares the component; the arguments are those of Champion."""
        super().__init__(
            ChampionCheckSpec(
                directory=directory,
                find_difference=find_difference,
                expected=expected,
                incompatible=executor.REFUSE,
            )
        )
