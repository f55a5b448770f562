"""Beam's FlinkRunner with one job server for all pipelines of a process.

Beam's own starts a job server, a Java program of 0.5 to 1 GB, for each pipeline, and
stops them when the process ends. Beam's SparkRunner shares one, as this runner does.
"""

from __future__ import annotations

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
)
from apache_beam.runners.portability import flink_runner, job_server

_job_servers: dict[str, job_server.JobServer] = {}


class FlinkRunner(flink_runner.FlinkRunner):
    """Runs pipelines on Flink."""

    def default_job_server(self, options: PipelineOptions) -> job_server.JobServer:
        """Returns the process's job server for a cluster and its settings."""
        server = super().default_job_server(options)
        if not isinstance(server, job_server.StopOnExitJobServer):
            return server  # --flink_submit_uber_jar: an object of one pipeline
        flink = options.view_as(FlinkRunnerOptions)
        key = f"{flink} {options.view_as(JobServerOptions)}"
        return _job_servers.setdefault(key, server)
