"""Kubeflow Pipelines: its pods run all, the Trainer's with what it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.beam import beam_arguments
from pipeline.config.orchestrators import KubeflowConfig
from pipeline.config.paths import ClusterPaths
from pipeline.config.recipe import Config
from pipeline.platforms import Platform

if TYPE_CHECKING:
    from tfx import v1 as tfx

    from pipeline.inputs.examples import ExamplesDirectory
    from pipeline.inputs.resolve import ResolvedInputs
    from pipeline.orchestrators.runner import ClusterRunner

_TRAINER = "Trainer"
_EXAMPLE_GEN = "ImportExampleGen"


def build_runner(config: Config) -> ClusterRunner:
    """Returns what compiles the pipeline."""
    from pipeline.orchestrators.runner import ClusterRunner

    assert config.kubeflow is not None
    return ClusterRunner(config.kubeflow, has_driver_hook=False)


def build_pipeline(config: Config, inputs: ResolvedInputs) -> tfx.dsl.Pipeline:
    """Builds the pipeline for Kubeflow.

    Args:
      config: The settings.
      inputs: Sources that the cluster reaches.
    """
    from pipeline.orchestrators.runner import parameter
    from pipeline.pipeline import create_pipeline

    cluster = config.kubeflow
    assert cluster is not None
    paths = ClusterPaths(cluster.pipeline_root, config.name)
    dag = create_pipeline(
        config,
        inputs,
        Platform(
            pipeline_root=paths.root,
            training=paths.training,
            pushed=cluster.pushed or paths.pushed,
            enable_cache=cluster.cache,
            parameter=parameter,
            beam_args=beam_arguments(cluster.beam, is_here=False),
        ),
    )
    for component in dag.components:
        if component.id == _TRAINER:
            component.with_platform_config(_resources(cluster))
        if component.id == _EXAMPLE_GEN and "://" in config.data_source:
            component.exec_properties.update(_fingerprint(inputs.examples))
    return dag


def build_platforms(config: Config) -> dict[str, Any] | None:
    """Returns the Trainer's node selector, which the pipeline spec has no field for.

    Source: `kubernetes_platform/proto/kubernetes_executor_config.proto` of Kubeflow
    Pipelines.
    """
    cluster = config.kubeflow
    assert cluster is not None
    if not cluster.node_selector:
        return None
    executor = {"nodeSelector": {"labels": cluster.node_selector}}
    return {
        "platforms": {
            "kubernetes": {
                "deploymentSpec": {"executors": {f"{_TRAINER}_executor": executor}}
            }
        }
    }


def _fingerprint(examples: ExamplesDirectory) -> dict[str, str]:
    """Returns what ExampleGen's driver would put into the cache key, if it were run.

    What is staged has its content's fingerprint in its path.
    """
    from tfx import v1 as tfx
    from tfx.components.example_gen import utils

    splits = [
        tfx.proto.Input.Split(name=name, pattern=pattern)
        for name, pattern in examples.patterns.items()
    ]
    found, _, _ = utils.calculate_splits_fingerprint_span_and_version(
        examples.directory, splits
    )
    return {utils.FINGERPRINT_PROPERTY_NAME: found}


def _resources(cluster: KubeflowConfig) -> Any:
    from kfp.pipeline_spec import pipeline_spec_pb2

    spec = pipeline_spec_pb2.PipelineDeploymentConfig.PipelineContainerSpec.ResourceSpec
    resources = spec(
        cpu_limit=cluster.cpu or 0.0, memory_limit=cluster.memory_gb or 0.0
    )
    if cluster.accelerator:
        resources.accelerator.type = cluster.accelerator
        resources.accelerator.count = cluster.accelerator_count
    return resources
