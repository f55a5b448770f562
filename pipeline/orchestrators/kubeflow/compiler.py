"""Kubeflow Pipelines: every component runs in a pod, the Trainer with resources."""

from __future__ import annotations

from typing import Any

from kfp.pipeline_spec import pipeline_spec_pb2
from tfx import v1 as tfx
from tfx.components.example_gen import utils

from modules import uris
from pipeline.config.orchestrators import KubeflowConfig
from pipeline.config.recipe import Config
from pipeline.inputs.examples import ExamplesDirectory
from pipeline.inputs.resolve import ResolvedInputs
from pipeline.pipeline import create_pipeline
from pipeline.platforms import Platform

_TRAINER = "Trainer"
_EXAMPLE_GEN = "ImportExampleGen"
_Container = pipeline_spec_pb2.PipelineDeploymentConfig.PipelineContainerSpec


def create_dag(
    config: Config, inputs: ResolvedInputs, platform: Platform
) -> tfx.dsl.Pipeline:
    """Builds the pipeline for open-source Kubeflow Pipelines."""
    assert config.kubeflow is not None
    dag = create_pipeline(config, inputs, platform)
    for component in dag.components:
        if component.id == _TRAINER:
            component.with_platform_config(_resources(config.kubeflow))
        if component.id == _EXAMPLE_GEN and not uris.is_local(config.data_source):
            component.exec_properties.update(_fingerprint(inputs.examples))
    return dag


def platform_spec(settings: KubeflowConfig) -> dict[str, Any] | None:
    """Returns the Trainer's node selector, if one is set.

    Source: `kubernetes_platform/proto/kubernetes_executor_config.proto` of Kubeflow
    Pipelines.
    """
    if not settings.node_selector:
        return None
    executor = {"nodeSelector": {"labels": settings.node_selector}}
    executors = {f"{_TRAINER}_executor": executor}
    return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}


def _resources(settings: KubeflowConfig) -> Any:
    resources = _Container.ResourceSpec(
        cpu_limit=settings.cpu or 0.0, memory_limit=settings.memory_gb or 0.0
    )
    if settings.accelerator:
        resources.accelerator.type = settings.accelerator
        resources.accelerator.count = settings.accelerator_count
    return resources


def _fingerprint(examples: ExamplesDirectory) -> dict[str, str]:
    """Returns what ExampleGen's driver adds to the cache key; Kubeflow runs no drivers.

    Staged examples do not need it: the fingerprint of their content is in their path.
    """
    splits = [
        tfx.proto.Input.Split(name=name, pattern=pattern)
        for name, pattern in examples.patterns.items()
    ]
    fingerprint, _, _ = utils.calculate_splits_fingerprint_span_and_version(
        examples.directory, splits
    )
    return {utils.FINGERPRINT_PROPERTY_NAME: fingerprint}
