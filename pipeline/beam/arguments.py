"""Derives Beam's pipeline arguments from the settings."""

from __future__ import annotations

from typing import Any

from contracts.errors import UsageError
from pipeline.beam import job_servers
from pipeline.config.beam import BeamConfig

# Workers have TFX installed. Without this argument TFX packages itself for them in each
# component: 2.5 s, and 50 MB in /tmp that are never deleted. Only Dataflow reads the
# value. Source: `tfx/utils/dependency_utils.py`.
INSTALLED = {"sdk_container_image": "installed"}


def beam_arguments(config: BeamConfig, *, is_here: bool = True) -> tuple[str, ...]:
    """Returns the arguments of the configured runner.

    Args:
      config: The settings.
      is_here: Whether Beam is started on this machine instead of in a cluster's
        container.

    Raises:
      UsageError: The runner's job server is not installed, or a setting is missing.
    """
    match config.runner:
        case "in_process":
            arguments: dict[str, Any] = {
                # Beam's default runner would download a server program.
                "runner": "apache_beam.runners.portability.fn_api_runner.FnApiRunner",
                **INSTALLED,
            }
        case "multi_processing":
            arguments = {
                "runner": "pipeline.beam.worker_processes.ProcessRunner",
                "direct_running_mode": "multi_processing",
                "direct_num_workers": str(config.workers or 0),  # 0: one per core
                **INSTALLED,
            }
        case "flink":
            arguments = {
                "runner": "pipeline.beam.flink_runner.FlinkRunner",
                "flink_master": config.master or "[local]",
                "flink_version": config.flink_version,
                "flink_job_server_jar": job_servers.find_jar(config, is_here=is_here),
                "parallelism": config.workers,
                **_environment(config),
            }
        case "spark":
            arguments = {
                "runner": "SparkRunner",
                "spark_master_url": config.master or f"local[{config.workers or '*'}]",
                "spark_job_server_jar": job_servers.find_jar(config, is_here=is_here),
                **_environment(config),
            }
        case "portable":
            arguments = {
                "runner": "PortableRunner",
                "job_endpoint": config.job_endpoint,
                "parallelism": config.workers,
                **_environment(config),
            }
        case "dataflow":
            settings = config.dataflow
            for name in ("project", "region", "temp_location"):
                if getattr(settings, name) is None:
                    raise UsageError(
                        f"beam.dataflow.{name}",
                        "not set, but required by the runner dataflow",
                        advice=f"set `beam.dataflow.{name}=VALUE`",
                        name="E-option-missing",
                    )
            arguments = {
                "runner": "DataflowRunner",
                "project": settings.project,
                "region": settings.region,
                "temp_location": settings.temp_location,
                # The image has Beam and this project: workers install nothing.
                "sdk_container_image": settings.image,
                "sdk_location": settings.image and "container",
                "max_num_workers": settings.max_workers,
                "worker_machine_type": settings.machine_type,
                "subnetwork": settings.subnetwork,
                "service_account_email": settings.service_account,
            }
    options = (f"--{name}={value}" for name, value in arguments.items() if value)
    return (*options, *config.options)


def _environment(config: BeamConfig) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "environment_type": config.environment.upper(),
        **INSTALLED,
    }
    if config.environment == "process":
        arguments["environment_option"] = f"process_command={config.environment_config}"
    else:
        arguments["environment_config"] = config.environment_config
    return arguments
