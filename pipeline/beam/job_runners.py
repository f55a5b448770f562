"""Beam's runners on a job server, with what they lack if workers are lost."""

from __future__ import annotations

import functools
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apache_beam import Pipeline
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions
from apache_beam.runners.portability import flink_runner, portable_runner, spark_runner
from apache_beam.runners.runner import PipelineResult

from pipeline.beam import flink_restarts, unfinished
from pipeline.beam.restarting import RestartOptions

_LOGGER = logging.getLogger(__name__)


class FlinkOptions(PipelineOptions):
    """The option of Beam's Java runner for the directory of Flink's settings."""

    @classmethod
    def _add_argparse_args(cls, parser) -> None:  # type: ignore[no-untyped-def]
        parser.add_argument("--flink_conf_dir")


class PortableRunner(portable_runner.PortableRunner):
    """Deletes what lost attempts left beside the outputs when the job ends."""

    def __init__(self) -> None:
        super().__init__()
        self._at_end: list[Callable[[], None]] = []

    def run_pipeline(
        self, pipeline: Pipeline, options: PipelineOptions
    ) -> PipelineResult:
        """Starts the job."""
        outputs = unfinished.find_outputs(pipeline)
        self._at_end.append(functools.partial(unfinished.delete_unfinished, outputs))
        return super().run_pipeline(pipeline, options)

    def start_and_replace_loopback_environments(
        self, pipeline: Any, options: PipelineOptions
    ) -> list[Callable[[], None]]:
        """Returns what Beam calls when the job has ended, in whatever state."""
        callbacks = super().start_and_replace_loopback_environments(pipeline, options)
        return [*callbacks, *self._at_end]


class SparkRunner(PortableRunner, spark_runner.SparkRunner):
    """Runs jobs on Spark."""


class FlinkRunner(PortableRunner, flink_runner.FlinkRunner):
    """Runs jobs on Flink, and cares for its restart strategy.

    A Flink that is started for the job gets one. That of a cluster is the cluster's
    own: a job cannot bring one.
    """

    def run_pipeline(
        self, pipeline: Pipeline, options: PipelineOptions
    ) -> PipelineResult:
        """Starts the job.

        Raises:
          ConnectionError: The cluster does not respond.
        """
        restarts = options.view_as(RestartOptions).number_of_execution_retries
        master = options.view_as(FlinkRunnerOptions).flink_master
        if master not in flink_runner.MAGIC_HOST_NAMES:
            advice = flink_restarts.advise(master, restarts)
            if advice:
                _warn_once(advice)
        elif options.view_as(FlinkOptions).flink_conf_dir is None:
            directory = tempfile.TemporaryDirectory(
                prefix="flink-conf-", ignore_cleanup_errors=True
            )
            self._at_end.append(directory.cleanup)
            flink_restarts.write_settings(Path(directory.name), restarts)
            options.view_as(FlinkOptions).flink_conf_dir = directory.name
        return super().run_pipeline(pipeline, options)


@functools.cache  # not for every component of a run
def _warn_once(advice: str) -> None:
    _LOGGER.warning(advice)
