"""Compares the results and the time of Beam's runners.

    python -m benchmarks.beam_runners OUTPUT --rows 500000
    python -m benchmarks.beam_runners OUTPUT --config configs/mrpc_minilm.yaml

The whole pipeline runs once with the first `--runner`: ExampleGen writes a file for
each of its workers, and one worker reads a file. Then StatisticsGen, Transform,
Evaluator and batch prediction run `in_process` and with all runners. Each result is
compared with that of `in_process`: statistics and metrics, and transformed rows and
predictions in any order.

`--rows` generates that many pairs of the sample's sentences, and an encoder of 2 layers
and hidden size 16 with the real vocabulary: much work for Beam, little for TensorFlow.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml
from safetensors.numpy import save_file

from benchmarks import comparisons, process_memory, rounds
from ingest import examples
from modules import encoder_files, environment
from pipeline.beam import beam_arguments
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import DEFAULT_CONFIG, REPOSITORY, OutputPaths
from pipeline.console import Console
from pipeline.inputs.encoder_source import resolve_encoder
from pipeline.inputs.resolve import resolve_inputs
from pipeline.local import run as run_lib
from pipeline.platforms import local_platform
from report.run_metadata import MetadataReader

COMPONENTS = ("StatisticsGen", "Transform", "Evaluator")
PREDICTION = "predict"
SAMPLE = REPOSITORY / "sample_data"
RECIPE_FILE = "recipe.yaml"
ENCODER = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 128,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
}


@dataclasses.dataclass(frozen=True)
class Measured:
    """One component, or batch prediction, on one runner.

    Attributes:
      work: The component, or `predict`.
      runner: Beam's runner, and its workers if they are set.
      seconds: Its time, with imports and the start of workers.
      memory: Peak memory of each process, as text; empty if it was not measured.
      differences: Differences from the result of `in_process`, as text.
    """

    work: str
    runner: str
    seconds: float
    memory: str
    differences: list[str]


def write_large(directory: Path, rows: int, seed: int = 0) -> Path:
    """Writes pairs, an encoder and a recipe that trains a little and evaluates on all.

    Args:
      directory: A new directory.
      rows: Pairs of the evaluation split.
      seed: Seed of the pairs.

    Returns:
      The recipe.
    """
    sample = list(examples.read_split(str(SAMPLE), "train"))
    chance = random.Random(seed)
    tables = directory / "data"
    tables.mkdir(parents=True)
    for split, count in (("train", 1000), ("eval", rows)):
        lines = ["idx\tlabel\tsentence1\tsentence2"]
        for index in range(count):
            first, other = chance.choice(sample), chance.choice(sample)
            label = int(chance.random() < 0.5)
            second = first if label else other
            texts = f"{first['sentence1']} No. {index}\t{second['sentence2']}"
            lines.append(f"{index}\t{label}\t{texts}")
        (tables / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    write_encoder(directory / "encoder")
    settings = {
        "name": "large",
        "data": {"source": "data"},
        "encoder": {"source": "encoder"},
        "trainer": {"epochs": 1, "learning_rate": 0.001},
        "evaluator": {"thresholds": {"accuracy": 0.0}},
        "output": "output",
    }
    path = directory / RECIPE_FILE
    path.write_text(yaml.safe_dump(settings))
    return path


def write_encoder(directory: Path) -> None:
    """Writes a Hugging Face folder: random weights, the sample's vocabulary."""
    # Imports TensorFlow, which takes seconds.
    from modules.encoder import hugging_face

    vocab_file = resolve_encoder(recipe.load_config(DEFAULT_CONFIG)).vocab_file
    words = Path(vocab_file).read_text(encoding="utf-8").splitlines()
    config = {**ENCODER, "vocab_size": len(words)}
    chance = np.random.default_rng(0)
    tensors = {
        name: 0.3 * chance.standard_normal(shape, np.float32)
        for name, shape in hugging_face.expected_shapes(config).items()
    }
    directory.mkdir(parents=True)
    save_file(tensors, directory / encoder_files.HUGGING_FACE_WEIGHTS)
    (directory / encoder_files.HUGGING_FACE_CONFIG).write_text(json.dumps(config))
    shutil.copy(vocab_file, directory / encoder_files.VOCAB_FILE)


def _run_component(
    config: recipe.Config, component: str, beam: BeamConfig, run_id: str
) -> tuple[float, dict[str, str]]:
    """Runs one component again on the inputs that a whole run left."""
    # TFX takes many seconds to import.
    from tfx import v1 as tfx
    from tfx.orchestration.pipeline import RunOptions

    from pipeline.pipeline import create_pipeline

    paths = OutputPaths.of(config)
    platform = dataclasses.replace(local_platform(paths, beam), enable_cache=False)
    dag = create_pipeline(config, resolve_inputs(config, paths), platform)
    tfx.orchestration.LocalDagRunner().run(
        dag,
        run_options=RunOptions(
            from_nodes=[component], to_nodes=[component], base_pipeline_run_id=run_id
        ),
    )
    return _read_component(config, component, latest_run_id(config))


def latest_run_id(config: recipe.Config) -> str:
    """Returns TFX's ID of the latest run of a pipeline."""
    return MetadataReader.of_file(OutputPaths.of(config).metadata).latest_run_id()


def _read_component(
    config: recipe.Config, component: str, run_id: str
) -> tuple[float, dict[str, str]]:
    """Returns the seconds of a component of a run, and its outputs' URIs by key."""
    reader = MetadataReader.of_file(OutputPaths.of(config).metadata)
    (execution,) = (e for run, e in reader.executions(run_id) if run.name == component)
    outputs = reader.outputs(execution)
    seconds = reader.working_seconds(execution)
    return seconds, {key: artifact.uri for key, artifact in outputs.items()}


_COMPARE: dict[str, Callable[[Any, Any], list[str]]] = {
    "StatisticsGen": comparisons.compare_statistics,
    "Transform": comparisons.compare_rows,
    "Evaluator": comparisons.compare_metrics,
    PREDICTION: comparisons.compare_predictions,
}


def measure(
    config: recipe.Config,
    run_id: str,
    runners: list[BeamConfig],
    works: tuple[str, ...],
) -> list[Measured]:
    """Runs components and prediction on each runner, and compares with `in_process`.

    Args:
      config: The settings of a finished run. If it ran `in_process`, its components
        do not run again.
      run_id: TFX's ID of that run.
      runners: Settings of Beam.
      works: Names of components, and `predict`.
    """
    measured = []
    for work in works:
        reference = None
        for beam in (BeamConfig(), *runners):
            result: Any
            memory = process_memory.PeakMemory()
            if work == PREDICTION:
                with memory:
                    seconds, result = _predict(config, beam)
            elif beam == config.beam == BeamConfig():
                seconds, result = _read_component(config, work, run_id)
            else:
                with memory:
                    seconds, result = _run_component(config, work, beam, run_id)
            reference = reference or result
            differences = _COMPARE[work](reference, result)
            name = f"{beam.runner} {beam.workers or ''}".strip()
            measured.append(Measured(work, name, seconds, str(memory), differences))
    return measured


def _predict(config: recipe.Config, beam: BeamConfig) -> tuple[float, str]:
    # Imports Beam, which takes seconds.
    from prediction.batch import BatchOptions, predict_files

    paths = OutputPaths.of(config)
    destination = paths.root / "predictions" / f"{beam.runner}-{time.time_ns()}"
    destination.parent.mkdir(exist_ok=True)
    started = time.monotonic()
    predict_files(
        str(paths.pushed),
        examples.find_source(config.data_source, config.data).files["eval"][0].path,
        str(destination),
        BatchOptions(beam_args=beam_arguments(beam)),
    )
    return time.monotonic() - started, str(destination)


def to_markdown(measured: list[Measured]) -> str:
    """Returns a table of seconds, their ratio to `in_process`, and differences."""
    lines = []
    for _, group in itertools.groupby(measured, key=lambda m: m.work):
        first, *others = group
        for run in (first, *others):
            ratio = f"{run.seconds / first.seconds:.2f}"
            differences = "; ".join(run.differences[:3]) or "the same"
            row = [run.work, run.runner, f"{run.seconds:.1f}", ratio, run.memory]
            lines.append([*row, "" if run is first else differences])
    head = ["work", "runner", "seconds", "of in_process", "memory, GiB", "result"]
    return rounds.table(head, lines)


@click.command(help=__doc__)
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--rows", type=int, help="Pairs to generate, instead of --config.")
@click.option(
    "--runner",
    "runners",
    multiple=True,
    default=["{runner: multi_processing}"],
    help="Settings of `beam` as YAML, to compare with in_process. May be repeated.",
)
@click.option("--work", "works", multiple=True, default=[*COMPONENTS, PREDICTION])
@options.CONFIG
@options.SET
def main(
    output: Path,
    rows: int | None,
    runners: tuple[str, ...],
    works: tuple[str, ...],
    config_file: Path,
    overrides: dict[str, Any],
) -> None:
    """Measures, and prints the table."""
    environment.set_up(quiet=True)
    overrides["output"] = str(output.absolute() / "output")
    beams = [BeamConfig.model_validate(yaml.safe_load(text)) for text in runners]
    overrides["beam"] = beams[0].model_dump()
    if rows:
        config_file = output / RECIPE_FILE
        if not config_file.exists():
            write_large(output, rows)
    config = recipe.load_config(config_file, overrides)
    console = Console()
    run_lib.run_locally(config, console)
    logging.getLogger().setLevel(logging.ERROR)
    with run_lib.redirect_output(output / "measured.log"):
        measured = measure(config, latest_run_id(config), beams, works)
    console.print(to_markdown(measured), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
