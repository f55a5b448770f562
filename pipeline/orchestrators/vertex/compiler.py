"""Compiles for Vertex AI: the Trainer is a custom job, Beam can run on Dataflow."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from kfp.pipeline_spec import pipeline_spec_pb2
from tfx import v1 as tfx
from tfx.dsl.components.base.base_component import BaseComponent

from pipeline.config.orchestrators import EndpointConfig, VertexConfig
from pipeline.config.recipe import Config
from pipeline.config.tfx_names import TUNER
from pipeline.inputs.resolve import ResolvedInputs
from pipeline.pipeline import create_pipeline
from pipeline.platforms import Platform


def create_dag(
    config: Config, inputs: ResolvedInputs, platform: Platform
) -> tfx.dsl.Pipeline:
    """Builds the pipeline for Vertex AI Pipelines."""
    extension = tfx.extensions.google_cloud_ai_platform
    settings = config.vertex
    assert settings is not None
    endpoint = settings.endpoint
    training_args = {"project": settings.project, "job_spec": _job_spec(settings)}
    platform = dataclasses.replace(
        platform,
        trainer=extension.Trainer,
        trainer_config={
            **_vertex_config(settings),
            extension.TRAINING_ARGS_KEY: training_args,
        },
        deploy=functools.partial(_deploy, settings, endpoint) if endpoint else None,
    )
    dag = create_pipeline(config, inputs, platform)
    components = {component.id: component for component in dag.components}
    if TUNER in components and settings.accelerator:
        # TFX's Tuner for Vertex AI would start an oracle of keras-tuner, which a search
        # with Optuna has not (`_WorkerExecutor` of its executor). So the trials run in
        # the container of the pipeline.
        container = pipeline_spec_pb2.PipelineDeploymentConfig.PipelineContainerSpec
        resources = container.ResourceSpec()
        resources.accelerator.type = settings.accelerator
        resources.accelerator.count = settings.accelerator_count
        components[TUNER].with_platform_config(resources)
    return dag


def _vertex_config(settings: VertexConfig) -> dict[str, Any]:
    extension = tfx.extensions.google_cloud_ai_platform
    return {
        extension.ENABLE_VERTEX_KEY: True,
        extension.VERTEX_REGION_KEY: settings.region,
    }


def _job_spec(settings: VertexConfig) -> dict[str, Any]:
    """Returns the `CustomJobSpec` of Vertex AI's REST API."""
    machine: dict[str, Any] = {"machine_type": settings.machine_type}
    if settings.accelerator:
        machine["accelerator_type"] = settings.accelerator
        machine["accelerator_count"] = settings.accelerator_count
    if settings.tpu_topology:
        machine["tpu_topology"] = settings.tpu_topology
    pool = {
        "machine_spec": machine,
        "replica_count": 1,
        "container_spec": {"image_uri": settings.image},
    }
    optional = {
        "service_account": settings.service_account,
        "network": settings.network,
    }
    return {
        "worker_pool_specs": [pool],
        **{name: value for name, value in optional.items() if value},
    }


def _deploy(
    settings: VertexConfig, endpoint: EndpointConfig, **pusher_inputs: Any
) -> BaseComponent:
    extension = tfx.extensions.google_cloud_ai_platform
    pusher = extension.Pusher(
        **pusher_inputs,
        custom_config={
            **_vertex_config(settings),
            extension.VERTEX_CONTAINER_IMAGE_URI_KEY: endpoint.image,
            extension.SERVING_ARGS_KEY: {
                "project": settings.project,
                "endpoint_name": endpoint.name,
                "machine_type": endpoint.machine_type,
            },
        },
    )
    return pusher.with_id("EndpointPusher")
