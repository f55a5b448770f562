"""Compiles the pipeline for Kubeflow Pipelines: `python kubeflow_runner.py`.

The settings are those of `configs/sample.yaml`, or of the recipe in the environment
variable BERT_PIPELINE_CONFIG. After each change of a setting, copy the job's files to
the pipeline root with
`python -m pipeline compile --orchestrator kubeflow --stage -o pipeline.yaml`.
`python -m pipeline submit --orchestrator kubeflow` compiles, copies and starts a run.
"""

import os
from pathlib import Path

from modules import environment
from pipeline.config.orchestrators import KUBEFLOW
from pipeline.config.paths import CONFIG_VARIABLE, DEFAULT_CONFIG
from pipeline.config.recipe import load_config
from pipeline.orchestrators import compilation

PACKAGE = Path("pipeline.yaml")


def run() -> None:
    """Writes the pipeline spec; the `tfx` command no longer has an engine for it."""
    environment.set_up(quiet=True)
    config = load_config(os.environ.get(CONFIG_VARIABLE, DEFAULT_CONFIG))
    compilation.write_job(compilation.compile_job(config, KUBEFLOW, print), PACKAGE)
    print(f"written to {PACKAGE}")


if __name__ == "__main__":
    run()
