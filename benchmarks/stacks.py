"""How fast another stack is, beside this one: the same work, in turn (docs/stacks.md).

    python -m benchmarks.stacks OUTPUT --config RECIPE --other PYTHON

OUTPUT is the directory of a finished run of the recipe, whose model and transformed
examples are taken. PYTHON is the other stack's, or a program that takes its arguments
and sees the same files; `make bench-newest` has both. Prints tables in Markdown.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from benchmarks import latency, pipeline_cost, rounds, serving, training, transform
from benchmarks.finished_run import newest_artifact
from benchmarks.peer import Figures
from benchmarks.rounds import Peer, Settings
from modules import environment
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config, load_config
from pipeline.inputs import encoder_source
from serving import discovery

Results = dict[str, list[Figures]]
_SIZES = (1, serving.BATCH)
_STEPS = 12  # of training, a round
_ROWS, _SHORT_ROWS = 4000, 300
_TRAINING = {
    "rows_per_second": "training, rows/s",
    "gflops": "matrix multiplication beside it, GFLOP/s",
}
_FIRST_STEP = {
    "imports": "imports before `run_fn`, s",
    "first_step": "`run_fn` to the end of step 1, s",
    "evaluation": "evaluation, s",
    "export": "export, s",
    "predictions": "predictions, s",
}
_TRANSFORM = {
    "import": "Transform's imports, s",
    "seconds": "Transform, s",
    "tracing": "its tracing, s",
    "memory": "its memory, MiB",
}
_PIPELINE = {
    "new": "a whole run without its training's steps, s",
    **{
        name: f"{name}, s"
        for name in (
            *("StatisticsGen", "DataGate", "Transform", "Trainer", "Evaluator"),
            "ServingCheck",
        )
    },
    "cached": "the same run, all of it cached, s",
}
_SERVING = {
    latency.at(
        latency.ROWS_PER_SECOND, serving.BATCH
    ): f"serving {serving.BATCH} at a time, rows/s",
    latency.at(latency.P50, 1): "serving one row, p50 ms",
    latency.at(latency.P99, 1): "serving one row, p99 ms",
}


@click.command(help=__doc__)
@click.argument("output", type=click.Path(exists=True, path_type=Path))
@click.option("--config", "recipe", required=True, help="The recipe of that run.")
@click.option("--other", required=True, help="The Python of the other stack.")
@click.option("--data", help="TSV splits of pairs.  [default: the recipe's]")
@click.option("--rounds", "count", default=5, show_default=True)
@click.option("--short", is_flag=True, help="One round, and little in it.")
def main(
    output: Path, recipe: str, other: str, data: str | None, count: int, short: bool
) -> None:
    """Measures, and prints the tables."""
    environment.set_up(quiet=True)
    config = load_config(recipe, {"data.source": data} if data else {})
    pythons = {_version(python): python for python in (sys.executable, other)}
    if len(pythons) != 2:
        raise click.UsageError(
            f"--other {other} has TFX {', '.join(pythons)}, as this Python has; give "
            "the Python of another stack (docs/stacks.md)"
        )
    count = 1 if short else count
    with tempfile.TemporaryDirectory() as directory:
        work = _Work(Path(recipe).absolute(), config, output, Path(directory), short)
        print(f"{rounds.describe_machine()}; {count} rounds")
        for script, settings, shown in (
            ("ours_training.py", work.training(count), _TRAINING),
            ("first_step.py", work.first_step(), _FIRST_STEP),
            ("transform_tfx.py", work.transform(), _TRANSFORM),
            ("saved_model.py", work.serving(), _SERVING),
        ):
            results = rounds.run_rounds(_peers(pythons, script, settings), count)
            print(f"\n{compare(results, shown)}", flush=True)
        difference = largest_difference(
            [json.loads(Path(directory, each).read_text()) for each in pythons]
        )
        print(f"\nLargest difference of a served probability: {difference:.1e}\n")
        print(compare(_run_pipelines(pythons, work, count), _PIPELINE))


def compare(results: Results, shown: Mapping[str, str]) -> str:
    """Returns a table of figures: of either stack, and the second's by the first's.

    Args:
      results: The figures of both stacks, by their versions.
      shown: What the figures that are told are called.
    """
    first, second = results.values()
    lines = []
    for figure, name in shown.items():
        found = [rounds.spread(each, figure) for each in (first, second)]
        digits = 0 if found[0].median >= 100 else 1 if found[0].median >= 5 else 2
        ratio = rounds.ratio(second, first, figure)
        lines.append([name, *(e.format(digits) for e in found), ratio.format(2)])
    head = ["what", *(f"TFX {version}" for version in results), "second ÷ first"]
    return rounds.table(head, lines)


def largest_difference(answers: list[list[list[float]]]) -> float:
    """Returns how far two stacks' probabilities of the same rows are apart, at most."""
    first, second = answers
    return max(
        abs(left - right)
        for one, other in zip(first, second, strict=True)
        for left, right in zip(one, other, strict=True)
    )


def _version(python: str) -> str:
    show = "import importlib.metadata as found; print(found.version('tfx'))"
    return subprocess.check_output([python, "-c", show], text=True).strip()


def _peers(pythons: Mapping[str, str], script: str, settings: Settings) -> list[Peer]:
    """Returns a peer of each stack, which writes to files of its own."""
    own = {
        version: {
            key: f"{value}/{version}" if key in ("output", "answers") else value
            for key, value in settings.items()
        }
        for version in pythons
    }
    return [
        Peer(version, script, own[version], python)
        for version, python in pythons.items()
    ]


def _run_pipelines(pythons: Mapping[str, str], work: _Work, count: int) -> Results:
    """Returns seconds of whole runs, and of each component of them."""
    results: Results = {version: [] for version in pythons}
    for number in range(count):
        for version, python in rounds.in_turn(list(pythons.items()), number):
            output = work.directory / f"run-{number}-{version}"
            new, cached = (
                pipeline_cost.run(rounds.ROOT, output, work.pipeline(), python)
                for _ in range(2)
            )
            figures = {cost.name: cost.seconds for cost in new}
            figures["new"] = pipeline_cost.seconds_without_steps(new)
            figures["cached"] = pipeline_cost.seconds_without_steps(cached)
            results[version].append(figures)
            shutil.rmtree(output)
    return results


@dataclasses.dataclass(frozen=True)
class _Work:
    """What both are given; what it names is in one directory, or in the checkout.

    Attributes:
      recipe: The recipe's file.
      config: What it says.
      output: Where it ran.
      directory: For what both read and write.
      short: Whether little is enough.
    """

    recipe: Path
    config: Config
    output: Path
    directory: Path
    short: bool

    @functools.cached_property
    def encoder(self) -> str:
        """The encoder's directory, which else is in this Python's packages."""
        found = encoder_source.resolve_encoder(self.config).directory
        return str(shutil.copytree(found, self.directory / "encoder"))

    def training(self, count: int) -> Settings:
        """Returns the settings of `ours_training.py`, for so many rounds."""
        from benchmarks import tokenized

        tokenized.write_train_split(self.config, self.encoder, self.directory)
        return {
            "config": str(self.recipe),
            "encoder": self.encoder,
            "records": str(self.directory / tokenized.RECORDS),
            "steps": training.SHORT_STEPS if self.short else _STEPS,
            "warmup": training.WARMUP_STEPS,
            "rounds": count,
        }

    def first_step(self) -> Settings:
        """Returns the settings of `first_step.py`."""
        found = {
            key: shutil.copytree(
                newest_artifact(self.output, "Transform", kind),
                self.directory / f"finished-{key}",
            )
            for key, kind in (
                ("examples", "transformed_examples"),
                ("transform_graph", "transform_graph"),
            )
        }
        return {
            "config": str(self.recipe),
            "encoder": self.encoder,
            "autograph_is_kept_out": True,
            **{key: str(path) for key, path in found.items()},
        }

    def transform(self) -> Settings:
        """Returns the settings of `transform_tfx.py`."""
        task = self.config.task
        rows, count = self.directory / "rows", _SHORT_ROWS if self.short else _ROWS
        known = transform.read_known(Path(self.config.data_source), task)
        transform.write_rows(known, count, rows, task)
        return {
            "data": str(rows),
            "config": str(self.recipe),
            "output": str(self.directory / "transformed"),
        }

    def pipeline(self) -> list[str]:
        """Returns the arguments of `pipeline run`: two steps of training."""
        data = self.directory / "data"
        if not data.exists():
            shutil.copytree(self.config.data_source, data)
        settings = (f"data.source={data}", *pipeline_cost.SHORT)
        given = itertools.chain.from_iterable(("--set", each) for each in settings)
        return ["--config", str(self.recipe), *given]

    def serving(self) -> Settings:
        """Returns the settings of `saved_model.py`."""
        task = self.config.task
        texts, _ = serving.read_rows(self.config, _SHORT_ROWS if self.short else None)
        rows = self.directory / "rows.json"
        rows.write_text(json.dumps(texts))
        served = OutputPaths(self.output, self.config.name).pushed
        versions = discovery.find_model(served).scan()
        model = shutil.copytree(versions[max(versions)], self.directory / "model")
        return {
            "model": str(model),
            "rows": str(rows),
            "columns": task.text_columns,
            "sizes": _SIZES,
            "answers": str(self.directory),
        }


if __name__ == "__main__":
    main()
