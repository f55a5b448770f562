"""The arguments that Beam takes, of the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.beam import job_servers
from pipeline.config.beam import BeamConfig
from pipeline.config.errors import UsageError

# In the component's own process. Beam's default runner looks for a server program
# first, which it would download.
_IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
# Workers run where this project is installed, TFX with it. Unless an argument tells so,
# TFX packs itself for them in each component: 2.5 s, and 50 MB in /tmp that nobody
# deletes. No runner of ours but Dataflow's looks at the image's name.
# Source: `tfx/utils/dependency_utils.py`.
_INSTALLED = {"sdk_container_image": "installed"}
_RESTARTING_RUNNER = "pipeline.beam.restarting.RestartingRunner"
_LOCAL_FLINK = "[local]"


def beam_arguments(config: BeamConfig, *, is_here: bool = True) -> tuple[str, ...]:
    """Returns the arguments that make Beam run as the settings say.

    Args:
      config: The settings.
      is_here: Whether Beam is started on this machine, and not in a cluster's
        container.

    Raises:
      UsageError: What the runner needs is not to be found, or not set.
    """
    arguments = _ARGUMENTS[config.runner](config, is_here)
    written = (f"--{name}={value}" for name, value in arguments.items() if value)
    return (*written, *config.options)


def _in_process(config: BeamConfig, is_here: bool) -> dict[str, Any]:
    del config, is_here
    return {"runner": _IN_PROCESS_RUNNER, **_INSTALLED}


def _multi_processing(config: BeamConfig, is_here: bool) -> dict[str, Any]:
    del is_here
    return {
        "runner": _RESTARTING_RUNNER,
        "direct_running_mode": "multi_processing",
        "direct_num_workers": str(config.workers or 0),  # 0 is a process a core
        "number_of_execution_retries": str(config.restarts),
        **_INSTALLED,
    }


def _flink(config: BeamConfig, is_here: bool) -> dict[str, Any]:
    return {
        "runner": "FlinkRunner",
        "flink_master": config.master or _LOCAL_FLINK,
        "flink_version": config.flink_version,
        "flink_job_server_jar": _find_jar(config, is_here),
        "parallelism": config.workers,
        "number_of_execution_retries": str(config.restarts),
        **_environment(config),
    }


def _spark(config: BeamConfig, is_here: bool) -> dict[str, Any]:
    return {
        "runner": "SparkRunner",
        "spark_master_url": config.master or f"local[{config.workers or '*'}]",
        "spark_job_server_jar": _find_jar(config, is_here),
        **_environment(config),
    }


def _portable(config: BeamConfig, is_here: bool) -> dict[str, Any]:
    del is_here
    return {
        "runner": "PortableRunner",
        "job_endpoint": config.job_endpoint,
        "parallelism": config.workers,
        **_environment(config),
    }


def _dataflow(config: BeamConfig, is_here: bool) -> dict[str, Any]:
    del is_here
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
        # The image has Beam and this project: nothing is installed at the start.
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


def _find_jar(config: BeamConfig, is_here: bool) -> str:
    if is_here:
        return job_servers.find_jar(config)
    if config.job_server_jar is None:
        raise UsageError(
            f"beam.job_server_jar: required by the runner {config.runner} in a "
            "container, but not set; name the file in the image, or take the runner "
            "portable with the address of a job server"
        )
    return config.job_server_jar


_ARGUMENTS: dict[str, Callable[[BeamConfig, bool], dict[str, Any]]] = {
    "in_process": _in_process,
    "multi_processing": _multi_processing,
    "flink": _flink,
    "spark": _spark,
    "portable": _portable,
    "dataflow": _dataflow,
}

IN_PROCESS = beam_arguments(BeamConfig())
