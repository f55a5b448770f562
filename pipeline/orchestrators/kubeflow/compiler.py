"""Compiles for Kubeflow: each component runs in a pod, the trainings with resources."""

from __future__ import annotations

from typing import Any

from kfp.pipeline_spec import pipeline_spec_pb2
from tfx import v1 as tfx
from tfx.components.example_gen import utils

from contracts.storage import uris
from pipeline.config.recipe import Config
from pipeline.config.tfx_names import EXAMPLE_GEN, TRAINER, TUNER
from pipeline.inputs.resolve import ResolvedInputs
from pipeline.pipeline import create_pipeline
from pipeline.platforms import Platform


def create_dag(
    config: Config, inputs: ResolvedInputs, platform: Platform
) -> tfx.dsl.Pipeline:
    """Builds the pipeline for open-source Kubeflow Pipelines."""
    settings = config.kubeflow
    assert settings is not None
    dag = create_pipeline(config, inputs, platform)
    components = {component.id: component for component in dag.components}
    container_spec = pipeline_spec_pb2.PipelineDeploymentConfig.PipelineContainerSpec
    resources = container_spec.ResourceSpec(
        cpu_limit=settings.cpu or 0.0, memory_limit=settings.memory_gb or 0.0
    )
    if settings.accelerator:
        resources.accelerator.type = settings.accelerator
        resources.accelerator.count = settings.accelerator_count
    for name in components.keys() & {TUNER, TRAINER}:
        components[name].with_platform_config(resources)
    if not uris.is_local(config.data_source):
        # ExampleGen's driver would add the fingerprint of the files to the cache key,
        # but Kubeflow runs no drivers. Staged examples have it in their path.
        splits = [
            tfx.proto.Input.Split(name=name, pattern=pattern)
            for name, pattern in inputs.examples.patterns.items()
        ]
        fingerprint, _, _ = utils.calculate_splits_fingerprint_span_and_version(
            inputs.examples.directory, splits
        )
        example_gen = components[EXAMPLE_GEN]
        example_gen.exec_properties[utils.FINGERPRINT_PROPERTY_NAME] = fingerprint
    return dag


def platform_spec(config: Config) -> dict[str, Any] | None:
    """Returns the node selector of the Trainer and the Tuner, if one is set.

    Source: `kubernetes_platform/proto/kubernetes_executor_config.proto` of Kubeflow
    Pipelines.
    """
    settings = config.kubeflow
    assert settings is not None
    if not settings.node_selector:
        return None
    executor = {"nodeSelector": {"labels": settings.node_selector}}
    names = [TRAINER] if config.tuner is None else [TUNER, TRAINER]
    executors = {f"{name}_executor": executor for name in names}
    return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
