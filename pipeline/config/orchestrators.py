"""The settings of the orchestrators that a pipeline can be compiled for."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, PositiveInt, ValidationInfo, field_validator

from contracts.section import Settings
from contracts.storage import uris
from pipeline.config.beam import BeamConfig

# Their sections of a recipe have the same names.
Orchestrator = Literal["kubeflow", "vertex"]
ORCHESTRATORS = KUBEFLOW, VERTEX = get_args(Orchestrator)


class OrchestratorConfig(Settings):
    """Settings that the orchestrators have in common.

    Attributes:
      image: The container image that `make image` builds, with its tag.
      pipeline_root: Where components write, `gs://BUCKET/FOLDER`. A local directory
        works only if the orchestrator runs on this machine.
      pushed: Directory of versions that a model server watches; None is
        `serving/NAME` below the pipeline root.
      cache: Whether a component with unchanged inputs is skipped.
      retries: Retries of a failed component. Since Kubeflow Pipelines 2.17 the
        configuration of the cluster decides whether Argo retries, see
        orchestrators.md.
      accelerator: Type of the Trainer's accelerator; None requests no accelerator.
      accelerator_count: Number of accelerators.
      beam: Where Beam runs; by default in each component's own process.
    """

    image: str = Field(min_length=1)
    pipeline_root: str = Field(pattern="^([a-z0-9]+://|/)")
    pushed: str | None = Field(default=None, pattern="^([a-z0-9]+://|/)")
    cache: bool = True
    retries: int = Field(default=2, ge=0)
    accelerator: str | None = None
    accelerator_count: PositiveInt = 1
    beam: BeamConfig = BeamConfig()

    @field_validator("pipeline_root", "pushed")
    @classmethod
    def _check_location(cls, location: str | None, field: ValidationInfo) -> str | None:
        uris.refuse_pattern(str(field.field_name), location or "")
        return location and location.rstrip("/")


class KubeflowConfig(OrchestratorConfig):
    """Open-source Kubeflow Pipelines, version 2.

    `accelerator` is the name of a node resource, such as `nvidia.com/gpu`.

    Attributes:
      cpu: CPU limit of the Trainer's container; None sets no limit.
      memory_gb: Its memory limit in gigabytes (10^9 bytes); None sets no limit.
      node_selector: Labels of the nodes that the Trainer may run on, such as
        `cloud.google.com/gke-accelerator: nvidia-l4`.
    """

    cpu: float | None = Field(default=None, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    node_selector: dict[str, str] = Field(default_factory=dict)


class EndpointConfig(Settings):
    """A Vertex AI endpoint that the pushed model is deployed to.

    Attributes:
      name: Display name; the endpoint is created if it does not exist.
      machine_type: Machine type of its servers.
      image: The serving container; it must have the ops of tensorflow-text.
    """

    name: str = Field(min_length=1)
    machine_type: str = "n1-standard-4"
    image: str = Field(min_length=1)


class VertexConfig(OrchestratorConfig):
    """Vertex AI Pipelines, with the Trainer as a custom job.

    `accelerator` is one of Vertex AI's accelerator types, such as `NVIDIA_L4`; a TPU is
    chosen by the machine type.

    Attributes:
      project: ID of the Google Cloud project.
      region: Region that the pipeline runs in.
      machine_type: Machine type of the custom job.
      tpu_topology: Topology of a TPU machine type, such as `2x2`.
      service_account: Service account of the jobs; None is the project's default one.
      network: Full name of a network to peer with; None peers with no network.
      endpoint: Endpoint that the pushed model is deployed to; None deploys nothing.
    """

    project: str = Field(min_length=1)
    region: str = Field(min_length=1)
    machine_type: str = "n1-standard-8"
    tpu_topology: str | None = None
    service_account: str | None = None
    network: str | None = None
    endpoint: EndpointConfig | None = None
