"""Compiles the pipeline for Vertex AI; `tfx ... --engine=vertex` loads this file.

The settings are those of `configs/sample.yaml`, or of the recipe in the environment
variable BERT_PIPELINE_CONFIG. `tfx run create` needs copies of the job's files in the
pipeline root. Copy them first, and after a change of inputs, code or settings, with
`python -m pipeline compile --orchestrator vertex --stage -o job.json`.
`python -m pipeline submit --orchestrator vertex` compiles, copies and starts a run.
"""

import os

from modules import environment
from pipeline.config.orchestrators import VERTEX
from pipeline.config.paths import CONFIG_VARIABLE, DEFAULT_CONFIG
from pipeline.config.recipe import load_config
from pipeline.orchestrators import compilation


def run() -> None:
    """Writes `pipeline.json` where the `tfx` command expects it."""
    environment.set_up()
    config = load_config(os.environ.get(CONFIG_VARIABLE, DEFAULT_CONFIG))
    compilation.compile_job(config, VERTEX, print, write_out=True)


if __name__ == "__main__":
    run()
