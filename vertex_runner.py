"""Compiles the pipeline for Vertex AI; what `tfx ... --engine=vertex` loads.

The settings are those of `configs/sample.yaml`, or of the recipe that the environment
variable BERT_PIPELINE_CONFIG names. Before the first `tfx run create`, the inputs must
be brought to the cluster: `python -m pipeline compile --target vertex --stage` does so.
`python -m pipeline submit --target vertex` does all of it.
"""

import os

from modules import environment
from pipeline.config.paths import DEFAULT_CONFIG
from pipeline.config.recipe import load_config
from pipeline.orchestrators import compilation


def run() -> None:
    """Writes `pipeline.json`, where the `tfx` command wants it."""
    environment.set_up()
    config = load_config(os.environ.get("BERT_PIPELINE_CONFIG", DEFAULT_CONFIG))
    compilation.compile_job(config, "vertex", print, write_out=True)


if __name__ == "__main__":
    run()
