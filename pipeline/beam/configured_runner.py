"""A Beam runner whose arguments are not part of TFX's cache key.

The cache key of a component contains its Beam arguments, so a change of the runner, or
of the number of workers, would run every component again. With this runner the
arguments of a component never change; the real ones are in an environment variable.

`beam.Pipeline` reads its options before it calls the runner, so options that it uses
itself, such as `--runtime_type_check`, have no effect. They have one in a container,
where `pipeline/entrypoint.py` gives TFX the real arguments.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from apache_beam import Pipeline
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineResult, PipelineRunner, create_runner

from pipeline.beam.arguments import INSTALLED

_VARIABLE = "BERT_PIPELINE_BEAM_ARGUMENTS"


def configure(arguments: Sequence[str]) -> tuple[str, ...]:
    """Sets Beam's arguments for this process and its child processes.

    Returns:
      The arguments for TFX, the same for any `arguments`.
    """
    os.environ[_VARIABLE] = json.dumps(arguments)
    runner = f"{ConfiguredRunner.__module__}.{ConfiguredRunner.__qualname__}"
    options = {"runner": runner, **INSTALLED}
    return tuple(f"--{name}={value}" for name, value in options.items())


class ConfiguredRunner(PipelineRunner):
    """Runs pipelines with the arguments that `configure` has set."""

    def run_pipeline(
        self, pipeline: Pipeline, options: PipelineOptions
    ) -> PipelineResult:
        """Runs a pipeline with the configured runner and its options."""
        configured = PipelineOptions(json.loads(os.environ[_VARIABLE]))
        FileSystems.set_options(configured)  # as the constructor of `Pipeline` does
        runner = create_runner(configured.view_as(StandardOptions).runner)
        return runner.run_pipeline(pipeline, configured)
