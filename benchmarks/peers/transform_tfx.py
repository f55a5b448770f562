"""TFX's Transform as the pipeline runs it: its executor, properties, Beam's options."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import peer, spans


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Imports what the pipeline imports, and builds the pipeline for its Transform.

    Args:
      settings: `data`, a directory of rows as `benchmarks.transform` writes them;
        `output`, where the transformed rows go; `config`, a recipe.
    """
    recorder = spans.Recorder()
    recorder.attach()
    from modules import environment

    environment.set_up()
    with environment.importing():
        import pipeline.pipeline  # noqa: F401

    transform, inputs, beam_args = _build(settings)

    def run(number: int) -> peer.Figures:
        del number
        output = Path(settings["output"])
        shutil.rmtree(output, ignore_errors=True)
        kind = transform.executor_spec.executor_class
        executor = kind(
            kind.Context(
                beam_pipeline_args=list(beam_args), tmp_dir=str(output / "temporary")
            )
        )
        traced = _tracing(recorder)
        started = time.perf_counter()
        executor.Do(inputs, _outputs(output), dict(transform.exec_properties))
        return {
            "seconds": time.perf_counter() - started,
            "import": recorder.total(spans.IMPORT),
            "tracing": _tracing(recorder) - traced,
            "memory": peer.peak_memory(),
        }

    return run


def _tracing(recorder: spans.Recorder) -> float:
    return sum(map(recorder.total, (spans.TRACE, spans.SAVE, spans.LOAD)))


def _build(settings: peer.Settings) -> tuple[Any, dict[str, Any], list[str]]:
    from tfx.types import standard_artifacts

    from pipeline.config import recipe
    from pipeline.config.paths import OutputPaths
    from pipeline.inputs import encoder_source, schema
    from pipeline.inputs.examples import ExamplesDirectory
    from pipeline.inputs.resolve import ResolvedInputs
    from pipeline.pipeline import create_pipeline
    from pipeline.platforms import local_platform

    config = recipe.load_config(
        Path(settings["config"]), {"output": f"{settings['output']}-pipeline"}
    )
    paths = OutputPaths.of(config)
    schema_file = schema.write_schema(config.task, paths)
    dag = create_pipeline(
        config,
        ResolvedInputs(
            ExamplesDirectory(settings["data"], {"train": "*", "eval": "*"}),
            str(schema_file),
            encoder_source.resolve_encoder(config, paths),
        ),
        local_platform(paths, config.beam),
    )
    (transform,) = (node for node in dag.components if node.id == "Transform")
    examples = standard_artifacts.Examples()
    examples.uri, examples.split_names = settings["data"], '["train", "eval"]'
    wanted = standard_artifacts.Schema()
    wanted.uri = str(schema_file.parent)
    inputs = {"examples": [examples], "schema": [wanted]}
    return transform, inputs, list(dag.beam_pipeline_args)


def _outputs(output: Path) -> dict[str, Any]:
    from tfx.types import standard_artifacts

    outputs = {
        "transform_graph": standard_artifacts.TransformGraph(),
        "transformed_examples": standard_artifacts.Examples(),
        "updated_analyzer_cache": standard_artifacts.TransformCache(),
    }
    for key, artifact in outputs.items():
        artifact.uri = str(output / key)
    return {key: [artifact] for key, artifact in outputs.items()}


if __name__ == "__main__":
    peer.serve(prepare)
