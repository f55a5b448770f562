"""The settings of Beam: which runner, in how many workers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from modules.config.settings import Settings

Runner = Literal[
    "in_process", "multi_processing", "flink", "spark", "portable", "dataflow"
]


class DataflowConfig(Settings):
    """Dataflow. On Vertex, what is left out is taken from `vertex`.

    Attributes:
      project: The Google Cloud project.
      region: Where it runs.
      temp_location: What it leaves while it works, `gs://BUCKET/FOLDER`.
      image: The container image of its workers, which `make image` builds.
      service_account: What the workers run as; None is the project's default one.
      machine_type: Of its workers; None leaves it to Dataflow.
      max_workers: Most of them.
      subnetwork: Of the workers, as Dataflow wants it; None is the default one.
    """

    project: str | None = None
    region: str | None = None
    temp_location: str | None = None
    image: str | None = None
    service_account: str | None = None
    machine_type: str | None = None
    max_workers: PositiveInt = 8
    subnetwork: str | None = None


class BeamConfig(Settings):
    """Beam, which moves the data.

    Attributes:
      runner: `in_process` is one thread of the component's own process,
        `multi_processing` processes of this machine; `portable` is any job service
        that runs already, Flink's and Spark's among them.
      workers: Worker processes of `multi_processing`, task slots of `flink` and
        `spark`; None takes all cores, or what the cluster has.
      restarts: How often work is done again that was lost with a worker process.
      master: The cluster: Flink's `HOST:PORT`, Spark's `spark://HOST:PORT`. None
        starts one on this machine, for as long as a component runs.
      flink_version: Of the cluster.
      job_server_jar: Beam's job server for Flink or Spark; None looks where Maven and
        Beam keep what they downloaded.
      job_endpoint: `HOST:PORT` of the job service that `portable` runs on.
      environment: Where `flink`, `spark` and `portable` start Python: in the
        component's own process (`loopback`), in processes of the cluster's machines
        (`process`), in containers (`docker`), or in a pool of workers that runs beside
        (`external`).
      environment_config: Of `process` the command, of `docker` the image, of
        `external` the pool's `HOST:PORT`.
      dataflow: What Dataflow wants to know.
      options: Further arguments of Beam, as `--max_bundle_size=500`.
    """

    runner: Runner = "in_process"
    workers: PositiveInt | None = None
    restarts: int = Field(default=2, ge=0)
    master: str | None = None
    flink_version: str = Field(default="1.20", pattern=r"^\d+\.\d+$")
    job_server_jar: str | None = None
    job_endpoint: str | None = Field(default=None, pattern=r"^[^/]+:\d+$")
    environment: Literal["loopback", "process", "docker", "external"] = "loopback"
    environment_config: str | None = None
    dataflow: DataflowConfig = DataflowConfig()
    options: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_combination(self) -> BeamConfig:
        if self.runner == "portable" and self.job_endpoint is None:
            raise ValueError(
                "job_endpoint: required by the runner portable, but not set; write "
                "HOST:PORT of a job service"
            )
        if self.environment != "loopback" and self.environment_config is None:
            what = {
                "process": "the command that starts a worker, as /opt/apache/beam/boot",
                "docker": "the image that `make image` builds",
                "external": "HOST:PORT of the pool of workers",
            }[self.environment]
            raise ValueError(
                f"environment_config: required by the environment {self.environment}, "
                f"but not set; write {what}"
            )
        return self

    @model_validator(mode="after")
    def _check_options(self) -> BeamConfig:
        for option in self.options:
            if not option.startswith("--"):
                raise ValueError(
                    f"options has {option!r}; write arguments, as --max_bundle_size=500"
                )
        return self
