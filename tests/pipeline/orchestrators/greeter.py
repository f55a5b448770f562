"""A small pipeline with run parameters, compiled by TFX."""

from pathlib import Path

from tfx import v1 as tfx

PARAMETERS = {"data-version": "2024-05", "train-steps": 12, "learning-rate": 2e-5}


@tfx.dsl.components.component
def Greeter(  # noqa: N802
    text: tfx.dsl.components.Parameter[str],
    steps: tfx.dsl.components.Parameter[int],
    rate: tfx.dsl.components.Parameter[float],
) -> None:
    raise NotImplementedError(f"compiled only: {text} {steps} {rate}")


def compile_package(file: Path) -> Path:
    """Writes the pipeline spec in YAML."""

    def parameter(name, kind):
        return tfx.dsl.experimental.RuntimeParameter(name=name, ptype=kind)

    greeter = Greeter(
        text=parameter("data-version", str),
        steps=parameter("train-steps", int),
        rate=parameter("learning-rate", float),
    )
    pipeline = tfx.dsl.Pipeline("greetings", "gs://bucket/root", components=[greeter])
    config = tfx.orchestration.experimental.KubeflowV2DagRunnerConfig(
        default_image="registry.example/image", use_pipeline_spec_2_1=True
    )
    tfx.orchestration.experimental.KubeflowV2DagRunner(
        config, output_dir=str(file.parent), output_filename=file.name
    ).run(pipeline)
    return file
