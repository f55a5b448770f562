"""The settings of Beam: its runner and workers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from contracts.errors import SettingError
from contracts.section import Settings
from contracts.storage import uris

Runner = Literal[
    "in_process", "multi_processing", "flink", "spark", "portable", "dataflow"
]


class DataflowConfig(Settings):
    """Settings of Dataflow.

    In a compiled job, `temp_location` defaults to `temporary` below the pipeline root,
    and `image` to that of the job; on Vertex, others are taken from `vertex`.

    Attributes:
      project: ID of the Google Cloud project.
      region: Region that the job runs in.
      temp_location: Directory of temporary files, `gs://BUCKET/FOLDER`.
      image: Container image of the workers, which `make image` builds.
      service_account: Service account of the workers; None is the project's default.
      machine_type: Machine type of the workers; None leaves it to Dataflow.
      max_workers: Maximum number of workers of a job.
      subnetwork: Subnetwork of the workers, as Dataflow spells it; None is the default.
    """

    project: str | None = None
    region: str | None = None
    temp_location: str | None = Field(default=None, pattern=f"^{uris.OBJECT_STORE}")
    image: str | None = None
    service_account: str | None = None
    machine_type: str | None = None
    max_workers: PositiveInt = 8
    subnetwork: str | None = None


class BeamConfig(Settings):
    """Where Beam runs, which processes the data.

    Attributes:
      runner: `in_process` is one thread of the component's own process,
        `multi_processing` several processes on this machine, `portable` any running
        job service, such as Flink's or Spark's.
      workers: Worker processes of `multi_processing`, task slots of `flink` and
        `spark`; None uses all cores of this machine, one slot of a Flink cluster, all
        cores of a Spark cluster.
      master: Address of the cluster: Flink's `HOST:PORT`, Spark's `spark://HOST:PORT`.
        None starts one on this machine for as long as a component runs.
      flink_version: Version of the Flink cluster.
      job_server_jar: Beam's job server for Flink or Spark; None searches the download
        directories of Maven and Beam, and the one of `make job-servers`.
      job_endpoint: `HOST:PORT` of the job service that `portable` runs on.
      environment: Where `flink`, `spark` and `portable` start Python: in the
        component's own process (`loopback`), in processes on the cluster's machines
        (`process`), in containers (`docker`), or in a running pool of workers
        (`external`).
      environment_config: The command for `process`, the image for `docker`, the
        pool's `HOST:PORT` for `external`.
      dataflow: Settings of the runner `dataflow`.
      options: Further Beam arguments, such as `--max_bundle_size=500`.
    """

    runner: Runner = "in_process"
    workers: PositiveInt | None = None
    master: str | None = None
    flink_version: str = Field(default="1.19", pattern=r"^\d+\.\d+$")
    job_server_jar: str | None = None
    job_endpoint: str | None = Field(default=None, pattern=r"^[^/]+:\d+$")
    environment: Literal["loopback", "process", "docker", "external"] = "loopback"
    environment_config: str | None = None
    dataflow: DataflowConfig = DataflowConfig()
    options: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_combination(self) -> BeamConfig:
        if self.runner == "portable" and self.job_endpoint is None:
            raise SettingError(
                "job_endpoint",
                "required by the runner portable, but not set",
                advice="write HOST:PORT of a job service",
            )
        if self.environment != "loopback" and self.environment_config is None:
            what = {
                "process": "the command of a worker, such as /opt/apache/beam/boot",
                "docker": "the image that `make image` builds",
                "external": "HOST:PORT of the pool of workers",
            }[self.environment]
            raise SettingError(
                "environment_config",
                f"required by the environment {self.environment}, but not set",
                advice=f"write {what}",
            )
        for option in self.options:
            if not option.startswith("--"):
                raise SettingError(
                    "options",
                    f"{option!r} is not an argument",
                    advice="write arguments such as --max_bundle_size=500",
                )
        return self
