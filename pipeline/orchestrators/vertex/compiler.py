"""Vertex AI Pipelines: the Trainer is a custom job, Beam can run on Dataflow."""

from __future__ import annotations

from typing import Any

from tfx import v1 as tfx
from tfx.dsl.components.base.base_component import BaseComponent

from pipeline.config.beam import BeamConfig
from pipeline.config.orchestrators import VertexConfig
from pipeline.orchestrators.compiler import Compiler

_ENDPOINT_PUSHER = "EndpointPusher"


class VertexCompiler(Compiler[VertexConfig]):
    """Compiles the pipeline for Vertex AI Pipelines."""

    runs_drivers = True

    def _platform_arguments(self) -> dict[str, Any]:
        extension = tfx.extensions.google_cloud_ai_platform
        return {
            "trainer": extension.Trainer,
            "trainer_config": {
                **self._vertex_config(),
                extension.TRAINING_ARGS_KEY: {
                    "project": self._settings.project,
                    "job_spec": self._job_spec(),
                },
            },
            "deploy": self._deploy if self._settings.endpoint else None,
        }

    def _vertex_config(self) -> dict[str, Any]:
        extension = tfx.extensions.google_cloud_ai_platform
        return {
            extension.ENABLE_VERTEX_KEY: True,
            extension.VERTEX_REGION_KEY: self._settings.region,
        }

    def _beam(self) -> BeamConfig:
        """Returns the settings of Beam; Dataflow's default to those of Vertex."""
        beam = self._settings.beam
        defaults = {
            "project": self._settings.project,
            "region": self._settings.region,
            "temp_location": self._paths.temporary,
            "image": self._settings.image,
            "service_account": self._settings.service_account,
        }
        dataflow = beam.dataflow.model_copy(
            update=defaults | beam.dataflow.model_dump(exclude_none=True)
        )
        return beam.model_copy(update={"dataflow": dataflow})

    def _job_spec(self) -> dict[str, Any]:
        """Returns the `CustomJobSpec` of Vertex AI's REST API."""
        settings = self._settings
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

    def _deploy(self, **inputs: Any) -> BaseComponent:
        extension = tfx.extensions.google_cloud_ai_platform
        endpoint = self._settings.endpoint
        assert endpoint is not None
        pusher = extension.Pusher(
            **inputs,
            custom_config={
                **self._vertex_config(),
                extension.VERTEX_CONTAINER_IMAGE_URI_KEY: endpoint.image,
                extension.SERVING_ARGS_KEY: {
                    "project": self._settings.project,
                    "endpoint_name": endpoint.name,
                    "machine_type": endpoint.machine_type,
                },
            },
        )
        return pusher.with_id(_ENDPOINT_PUSHER)
