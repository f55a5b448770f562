"""A Beam runner whose arguments are not part of TFX's cache key.

The cache key of a component holds its Beam arguments, so a change of the runner, or of
the number of workers, would run every component again. With this runner the arguments
of a component never change; the real ones are in an environment variable.

`beam.Pipeline` has read its options when it calls the runner, so those that it uses
itself, such as `--runtime_type_check`, have no effect. They have in a container, where
`pipeline/entrypoint.py` gives TFX the real arguments.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from apache_beam import Pipeline
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineResult, PipelineRunner, create_runner

_VARIABLE = "BERT_PIPELINE_BEAM_ARGUMENTS"


def configure(arguments: Sequence[str]) -> tuple[str, ...]:
    """Sets Beam's arguments for this process and its child processes.

    Args:
      arguments: Beam's arguments.

    Returns:
      The arguments to give to TFX, the same for any `arguments`.
    """
    os.environ[_VARIABLE] = json.dumps(arguments)
    runner = f"{ConfiguredRunner.__module__}.{ConfiguredRunner.__qualname__}"
    # Without an image TFX would build a package of itself for each component.
    return (f"--runner={runner}", "--sdk_container_image=installed")


class ConfiguredRunner(PipelineRunner):
    """Runs pipelines with the arguments that `configure` has set."""

    def run_pipeline(
        self, pipeline: Pipeline, options: PipelineOptions
    ) -> PipelineResult:
        """Runs a pipeline with the configured runner and its options."""
        configured = PipelineOptions(json.loads(os.environ[_VARIABLE]))
        FileSystems.set_options(configured)  # as the constructor of `Pipeline`
        runner = create_runner(configured.view_as(StandardOptions).runner)
        return runner.run_pipeline(pipeline, configured)
