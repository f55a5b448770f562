"""The settings of the clusters that a pipeline can be compiled for."""

from __future__ import annotations

from pydantic import Field, PositiveInt, field_validator

from modules.config.settings import Settings
from pipeline.config.beam import BeamConfig


class ClusterConfig(Settings):
    """What a pipeline on a cluster needs, whichever it is.

    Attributes:
      image: The container image that `make image` builds, with its tag.
      pipeline_root: Where components write, `gs://BUCKET/FOLDER`. A directory is for
        clusters that run on this machine, as the tests' do.
      pushed: The directory of versions that a model server watches; None is
        `serving/NAME` below the pipeline root.
      cache: Whether a component is left out that ran on the same before.
      retries: How often a component that failed is tried again; of open-source
        Kubeflow, version 2.5 and later do so.
      accelerator: The Trainer's accelerator; None is none.
      accelerator_count: How many.
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
    def _strip_slash(cls, location: str | None) -> str | None:
        return location and location.rstrip("/")


class KubeflowConfig(ClusterConfig):
    """Open-source Kubeflow Pipelines, version 2.

    `accelerator` is the name of a resource of the nodes, as `nvidia.com/gpu`.

    Attributes:
      cpu: CPUs of the Trainer's container; None leaves it to the cluster.
      memory_gb: Its memory in gigabytes (10^9 bytes); None likewise.
      node_selector: Labels of the nodes that the Trainer may run on, as
        `cloud.google.com/gke-accelerator: nvidia-l4`.
    """

    cpu: float | None = Field(default=None, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    node_selector: dict[str, str] = Field(default_factory=dict)


class EndpointConfig(Settings):
    """A Vertex AI endpoint that the pushed model is deployed to.

    Attributes:
      name: Display name; an endpoint is made where there is none.
      machine_type: Of its servers.
      image: The serving container; it must have the ops of tensorflow-text.
    """

    name: str = Field(min_length=1)
    machine_type: str = "n1-standard-4"
    image: str = Field(min_length=1)


class VertexConfig(ClusterConfig):
    """Vertex AI Pipelines, with the Trainer as a custom job.

    `accelerator` is a type that Vertex knows, as `NVIDIA_L4`; a TPU is chosen by the
    machine type.

    Attributes:
      project: The Google Cloud project.
      region: Where it runs.
      machine_type: Of the custom job.
      tpu_topology: Of a TPU machine type, as `2x2`.
      service_account: What the jobs run as; None is the project's default one.
      network: Full name of a network to peer with; None is none.
      endpoint: Where the pushed model is deployed; None leaves it in the bucket.
    """

    project: str = Field(min_length=1)
    region: str = Field(min_length=1)
    machine_type: str = "n1-standard-8"
    tpu_topology: str | None = None
    service_account: str | None = None
    network: str | None = None
    endpoint: EndpointConfig | None = None
