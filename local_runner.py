"""Runs the pipeline on this machine; `tfx ... --engine=local` loads this file.

The settings are those of `configs/sample.yaml`, or of the recipe in the environment
variable BERT_PIPELINE_CONFIG. `python -m pipeline run` does the same with
progress and a report.
"""

import os

from contracts.storage import files
from modules import environment
from pipeline.config.paths import CONFIG_VARIABLE, DEFAULT_CONFIG, OutputPaths
from pipeline.config.recipe import load_config
from pipeline.console import guard_streams, log_loss
from pipeline.inputs.resolve import resolve_inputs
from pipeline.local.run import hold_output, prepare
from pipeline.operations import cleaning
from pipeline.operations.provenance import check_commits, warn_of_commits
from pipeline.platforms import local_platform


def run() -> None:
    """Runs the pipeline; the `tfx` command compiles it instead."""
    guard_streams(log_loss)
    environment.set_up()
    config = load_config(os.environ.get(CONFIG_VARIABLE, DEFAULT_CONFIG))
    paths = OutputPaths.of(config)
    prepare(config, paths)
    commits = check_commits(config)
    warn_of_commits(commits)
    with hold_output(paths, "local_runner.py", private=config.private):
        from tfx import v1 as tfx

        from pipeline.pipeline import create_pipeline

        files.write_record(str(paths.commits), commits.model_dump(mode="json"))
        inputs = resolve_inputs(config, paths)
        dag = create_pipeline(config, inputs, local_platform(paths, config.beam))
        with cleaning.checking_artifacts(paths):
            tfx.orchestration.LocalDagRunner().run(dag)


if __name__ == "__main__":
    run()
