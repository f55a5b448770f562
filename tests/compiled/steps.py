"""Components and user code of the pipelines that these tests compile."""

import os
from pathlib import Path

from tfx import v1 as tfx
from tfx.types.experimental.simple_artifacts import File
from tfx.types.standard_artifacts import Examples

ATTEMPTS = 3


def preprocessing_fn(inputs):
    """Doubles `x`."""
    return {"doubled": inputs["x"] * 2}


def run_fn(fn_args):
    """Writes a text as the model: a word of the config, and a variable of the job."""
    print("writes the model")
    model = Path(fn_args.serving_model_dir)
    model.mkdir(parents=True)
    (model / "model.txt").write_text(
        f"{fn_args.custom_config['word']} {os.environ['FROM_THE_JOB']}"
    )


@tfx.dsl.components.component
def Flaky(  # noqa: N802
    examples: tfx.dsl.components.InputArtifact[Examples],
    report: tfx.dsl.components.OutputArtifact[File],
    word: tfx.dsl.components.Parameter[str],
    number: tfx.dsl.components.Parameter[int],
) -> None:
    """Fails twice; then outputs its parameters and the examples' splits."""
    report.set_string_custom_property("word", word)
    report.set_int_custom_property("number", number)
    report.set_string_custom_property("splits", examples.split_names)
    log = Path(report.uri) / "attempts"
    with log.open("a") as file:
        file.write("started\n")
    if len(log.read_text().splitlines()) < ATTEMPTS:
        raise RuntimeError("not yet")
