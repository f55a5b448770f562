"""Beam's pipeline arguments, from the settings."""

from __future__ import annotations

from typing import Any

from pipeline.beam import job_servers
from pipeline.config.beam import BeamConfig
from pipeline.config.errors import UsageError

# Beam's default runner would download a server program.
_IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
# Workers have TFX installed. Without this argument TFX packages itself for them in each
# component: 2.5 s, and 50 MB in /tmp that nobody deletes. Only Dataflow reads the name.
# Source: `tfx/utils/dependency_utils.py`.
_INSTALLED = {"sdk_container_image": "installed"}
_PROCESS_RUNNER = "pipeline.beam.worker_processes.ProcessRunner"
_LOCAL_FLINK = "[local]"


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
            arguments = {"runner": _IN_PROCESS_RUNNER, **_INSTALLED}
        case "multi_processing":
            arguments = _multi_processing(config)
        case "flink":
            arguments = _flink(config, job_servers.find_jar(config, is_here=is_here))
        case "spark":
            arguments = _spark(config, job_servers.find_jar(config, is_here=is_here))
        case "portable":
            arguments = _portable(config)
        case "dataflow":
            arguments = _dataflow(config)
    options = (f"--{name}={value}" for name, value in arguments.items() if value)
    return (*options, *config.options)


def _multi_processing(config: BeamConfig) -> dict[str, Any]:
    return {
        "runner": _PROCESS_RUNNER,
        "direct_running_mode": "multi_processing",
        "direct_num_workers": str(config.workers or 0),  # 0: one process per core
        **_INSTALLED,
    }


def _flink(config: BeamConfig, jar: str) -> dict[str, Any]:
    return {
        "runner": "FlinkRunner",
        "flink_master": config.master or _LOCAL_FLINK,
        "flink_version": config.flink_version,
        "flink_job_server_jar": jar,
        "parallelism": config.workers,
        **_environment(config),
    }


def _spark(config: BeamConfig, jar: str) -> dict[str, Any]:
    return {
        "runner": "SparkRunner",
        "spark_master_url": config.master or f"local[{config.workers or '*'}]",
        "spark_job_server_jar": jar,
        **_environment(config),
    }


def _portable(config: BeamConfig) -> dict[str, Any]:
    return {
        "runner": "PortableRunner",
        "job_endpoint": config.job_endpoint,
        "parallelism": config.workers,
        **_environment(config),
    }


def _dataflow(config: BeamConfig) -> dict[str, Any]:
    settings = config.dataflow
    for name in ("project", "region", "temp_location"):
        if getattr(settings, name) is None:
            raise UsageError(
                f"beam.dataflow.{name}: required by the runner dataflow, but not set"
            )
    return {
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


def _environment(config: BeamConfig) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "environment_type": config.environment.upper(),
        **_INSTALLED,
    }
    if config.environment == "process":
        arguments["environment_option"] = f"process_command={config.environment_config}"
    else:
        arguments["environment_config"] = config.environment_config
    return arguments


IN_PROCESS = beam_arguments(BeamConfig())
