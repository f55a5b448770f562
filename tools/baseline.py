"""Shows whether a change of the code changes a result of a run.

    python -m tools.baseline record TREE DIR
    python -m tools.baseline compare DIR DIR

`record` runs the sample and the tasks of tools/baseline_tasks.yaml with the code in
TREE, and writes what a user gets as a JSON file for each: the verdicts, the metrics,
the report, the signatures of the pushed model, and its predictions. `compare` prints
the values that differ, with exit status 1 if there are any. `make baseline BASE=COMMIT`
does both.

The tool imports no module of the product, because TREE may have others.
"""

from __future__ import annotations

import fnmatch
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tools import baseline_tasks

TOLERANCE = 1e-6  # of floats, absolute and relative

# Values that differ between two runs of the same code: keys, which also leave out what
# is below them, and parts of texts.
VOLATILE_KEYS = (
    *("created", "commits", "components", "lineage", "pushed", "source"),
    *("*seconds*", "*per_second", "latency_*", "*_memory_bytes", "time_share"),
)
VOLATILE_TEXT = re.compile(r"(?<!\S)/\S+|\b\d{13}\b| and \S+ % of the time")

_FILES = {
    "verdict": "artifacts/Evaluator/verdict/*/verdict.json",
    "checks": "artifacts/ModelChecks/blessing/*/checks.json",
    "serving_check": "artifacts/ServingCheck/blessing/*/serving_check.json",
    "metrics": "artifacts/Trainer/model_run/*/metrics.json",
    "report": "runs/*/report.json",
}


def _run(tree: Path, *arguments: str | Path) -> int:
    """Runs a command of the pipeline, and returns its exit status."""
    finished = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if finished.returncode not in (0, 3):  # 3: the model was refused
        raise click.ClickException(f"{arguments[0]} in {tree}:\n{finished.stdout}")
    return finished.returncode


def _read_signatures(model: Path) -> dict[str, Any]:
    """Returns type and shape of each input and output of a SavedModel."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.core.protobuf import saved_model_pb2

    def describe(tensor: Any) -> str:
        sizes = [dim.size for dim in tensor.tensor_shape.dim]
        return f"{types_pb2.DataType.Name(tensor.dtype)}{sizes}"

    content = (model / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return {
        name: {
            side: {
                key: describe(tensor)
                for key, tensor in getattr(signature, side).items()
            }
            for side in ("inputs", "outputs")
        }
        for name, signature in graph.signature_def.items()
    }


def record_task(task: str, tree: Path) -> dict[str, Any]:
    """Returns the results of a task with the code of a tree."""
    with tempfile.TemporaryDirectory(prefix="baseline-") as name:
        folder = Path(name)
        recipe, rows = baseline_tasks.write(task, tree, folder)
        output, table = folder / "output", folder / "predictions.jsonl"
        status = _run(tree, "run", "--config", recipe, "--output", output)
        results: dict[str, Any] = {"exit_status": status}
        for key, pattern in _FILES.items():
            (path,) = output.glob(pattern)
            results[key] = json.loads(path.read_text())
        for model in output.glob("serving/*/[0-9]*"):  # none if it was refused
            results["signatures"] = _read_signatures(model)
            description = model / "assets.extra" / "architecture.json"
            results["description"] = json.loads(description.read_text())
            files = ("--model", model, "--input", rows, "--output", table)
            _run(tree, "predict", "--config", recipe, *files)
            lines = table.read_text().splitlines()
            results["predictions"] = [json.loads(line) for line in lines]
    return results


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields path and value of each leaf of a JSON value, without volatile ones."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            if not any(fnmatch.fnmatchcase(key, name) for name in VOLATILE_KEYS):
                yield from flatten(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        names = [item.get("name") if isinstance(item, dict) else None for item in value]
        if None in names or len(set(names)) < len(names):
            names = list(range(len(value)))
        for name, item in zip(names, value, strict=True):
            yield from flatten(item, f"{path}[{name}]")
    else:
        yield path, VOLATILE_TEXT.sub("…", value) if isinstance(value, str) else value


def _is_equal(before: Any, after: Any) -> bool:
    if isinstance(before, float) and isinstance(after, float):
        both_nan = math.isnan(before) and math.isnan(after)
        limits = {"rel_tol": TOLERANCE, "abs_tol": TOLERANCE}
        return both_nan or math.isclose(before, after, **limits)
    return type(before) is type(after) and before == after


def find_differences(before: Any, after: Any) -> tuple[int, list[str]]:
    """Compares two JSON values.

    Args:
      before: The results of the base.
      after: The results of the changed code.

    Returns:
      The number of compared values, and a line for each path that differs. Paths that
      differ in list indexes alone share a line, with the values of the first one.
    """
    old, new = dict(flatten(before)), dict(flatten(after))
    paths = list(old | new)
    lines: dict[str, list[str]] = {}
    for path in paths:
        sides = [json.dumps(s[path]) if path in s else "absent" for s in (old, new)]
        if "absent" in sides or not _is_equal(old[path], new[path]):
            merged = re.sub(r"\[\d+\]", "[]", path)
            lines.setdefault(merged, []).append(f"{path}: {' -> '.join(sides)}")
    return len(paths), [
        first + (f"  (and {len(rest)} more of {merged})" if rest else "")
        for merged, (first, *rest) in lines.items()
    ]


@click.group(help=__doc__.partition("\n")[0])
def main() -> None:
    """Parses the command."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    warnings.simplefilter("ignore")  # of TensorFlow's imports


@main.command()
@click.argument("tree", type=click.Path(exists=True, path_type=Path, resolve_path=True))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--task", "tasks", multiple=True, type=click.Choice(baseline_tasks.TASKS))
def record(tree: Path, folder: Path, tasks: tuple[str, ...]) -> None:
    """Record the results of the code in TREE to DIR."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in tasks or baseline_tasks.TASKS:
        start = time.monotonic()
        results = record_task(task, tree)
        (folder / f"{task}.json").write_text(json.dumps(results, indent=1))
        seconds = time.monotonic() - start
        click.echo(f"{task}: exit status {results['exit_status']}, {seconds:.0f} s")


@main.command()
@click.argument("before", type=click.Path(exists=True, path_type=Path))
@click.argument("after", type=click.Path(exists=True, path_type=Path))
def compare(before: Path, after: Path) -> None:
    """Print what differs between the recordings in two directories."""
    names = {path.name for d in (before, after) for path in d.glob("*.json")}
    if not names:
        raise click.UsageError(f"{before} and {after} have no recordings")
    has_changed = False
    for name in sorted(names):
        paths = [d / name for d in (before, after) if (d / name).exists()]
        count, lines = 0, [f"only {paths[0]} was recorded"]
        if len(paths) == 2:
            sides = [json.loads(path.read_text()) for path in paths]
            count, lines = find_differences(*sides)
        for line in lines:
            print(f"{paths[0].stem}: {line}")
        print(f"{paths[0].stem}: {count} values compared, {len(lines)} paths differ")
        has_changed |= bool(lines)
    sys.exit(has_changed)


if __name__ == "__main__":
    main()
