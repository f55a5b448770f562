"""Vertex AI Pipelines: the Trainer is a custom job, Dataflow moves the data."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pipeline.beam import beam_arguments
from pipeline.config.orchestrators import EndpointConfig, VertexConfig
from pipeline.config.paths import ClusterPaths
from pipeline.config.recipe import Config
from pipeline.platforms import Platform

if TYPE_CHECKING:
    from tfx import v1 as tfx
    from tfx.dsl.components.base.base_component import BaseComponent

    from pipeline.inputs.resolve import ResolvedInputs
    from pipeline.orchestrators.runner import ClusterRunner

ENDPOINT_PUSHER = "EndpointPusher"


def build_runner(config: Config) -> ClusterRunner:
    """Returns what compiles the pipeline."""
    from pipeline.orchestrators.runner import ClusterRunner

    assert config.vertex is not None
    return ClusterRunner(config.vertex, has_driver_hook=True)


def build_pipeline(config: Config, inputs: ResolvedInputs) -> tfx.dsl.Pipeline:
    """Builds the pipeline for Vertex.

    Args:
      config: The settings.
      inputs: Sources that the cluster reaches.
    """
    from tfx import v1 as tfx

    from pipeline.orchestrators.runner import parameter
    from pipeline.pipeline import create_pipeline

    cluster = config.vertex
    assert cluster is not None
    paths = ClusterPaths(cluster.pipeline_root, config.name)
    return create_pipeline(
        config,
        inputs,
        Platform(
            pipeline_root=paths.root,
            training=paths.training,
            pushed=cluster.pushed or paths.pushed,
            enable_cache=cluster.cache,
            parameter=parameter,
            beam_args=_beam_args(cluster, paths),
            trainer=tfx.extensions.google_cloud_ai_platform.Trainer,
            trainer_config=_trainer_config(cluster),
            deploy=_deploy(cluster, cluster.endpoint) if cluster.endpoint else None,
        ),
    )


def build_platforms(config: Config) -> None:
    """Returns None: Vertex has all that it needs in the pipeline spec."""
    del config


def _beam_args(cluster: VertexConfig, paths: ClusterPaths) -> tuple[str, ...]:
    """Returns Beam's arguments, Dataflow's completed by what Vertex is told."""
    known = {
        "project": cluster.project,
        "region": cluster.region,
        "temp_location": paths.temporary,
        "image": cluster.image,
        "service_account": cluster.service_account,
    }
    given = cluster.beam.dataflow.model_dump(exclude_none=True)
    dataflow = cluster.beam.dataflow.model_copy(update={**known, **given})
    return beam_arguments(
        cluster.beam.model_copy(update={"dataflow": dataflow}), is_here=False
    )


def _trainer_config(cluster: VertexConfig) -> dict[str, Any]:
    """Returns the custom job, as the Vertex REST API's `CustomJobSpec` has it."""
    from tfx import v1 as tfx

    machine: dict[str, Any] = {"machine_type": cluster.machine_type}
    if cluster.accelerator:
        machine["accelerator_type"] = cluster.accelerator
        machine["accelerator_count"] = cluster.accelerator_count
    if cluster.tpu_topology:
        machine["tpu_topology"] = cluster.tpu_topology
    job: dict[str, Any] = {
        "worker_pool_specs": [
            {
                "machine_spec": machine,
                "replica_count": 1,
                "container_spec": {"image_uri": cluster.image},
            }
        ],
    }
    if cluster.service_account:
        job["service_account"] = cluster.service_account
    if cluster.network:
        job["network"] = cluster.network
    extension = tfx.extensions.google_cloud_ai_platform
    return {
        extension.ENABLE_VERTEX_KEY: True,
        extension.VERTEX_REGION_KEY: cluster.region,
        extension.TRAINING_ARGS_KEY: {"project": cluster.project, "job_spec": job},
    }


def _deploy(
    cluster: VertexConfig, endpoint: EndpointConfig
) -> functools.partial[BaseComponent]:
    from tfx import v1 as tfx

    extension = tfx.extensions.google_cloud_ai_platform
    return functools.partial(
        _make_endpoint_pusher,
        custom_config={
            extension.ENABLE_VERTEX_KEY: True,
            extension.VERTEX_REGION_KEY: cluster.region,
            extension.VERTEX_CONTAINER_IMAGE_URI_KEY: endpoint.image,
            extension.SERVING_ARGS_KEY: {
                "project": cluster.project,
                "endpoint_name": endpoint.name,
                "machine_type": endpoint.machine_type,
            },
        },
    )


def _make_endpoint_pusher(**arguments: Any) -> BaseComponent:
    from tfx import v1 as tfx

    pusher = tfx.extensions.google_cloud_ai_platform.Pusher(**arguments)
    return pusher.with_id(ENDPOINT_PUSHER)
