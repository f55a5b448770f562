"""Jobs of the tiny recipe, compiled for an orchestrator and run on this machine."""

import contextlib
import copy
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import yaml

from contracts.records.checks import CheckResult, ChecksReport
from contracts.records.evaluation import Verdict
from contracts.storage import files, uris
from contracts.versions.exported_model import PORTABLE_DIRECTORY
from pipeline.config.recipe import load_config
from pipeline.orchestrators import compilation, staging
from portable.model import PortableModel
from tests import tiny
from tests.compiled import worker
from tests.compiled.runner import JobRun, JobRunner
from tests.e2e import failing_checks
from tests.object_store.client import ObjectStore


@dataclasses.dataclass
class Job:
    """A compiled job whose inputs are staged.

    Attributes:
      documents: The package's YAML documents; the first is the pipeline spec.
      runner: Runs it.
      root: The pipeline root.
      changed: The pipeline spec of another job of the recipe.
    """

    documents: list[Any]
    runner: JobRunner
    root: str
    changed: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        return self.documents[0]

    @property
    def served(self) -> list[str]:
        """The pushed versions, the oldest first."""
        directory = uris.join(self.root, "serving", "tiny")
        versions = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(directory))
        return [uris.join(directory, version) for version in versions]


@contextlib.contextmanager
def compiled(
    directory: Path,
    orchestrator: str,
    store: ObjectStore | None = None,
    recipe_settings: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    **settings: Any,
):
    """Compiles the tiny recipe, and deletes what a cluster cannot read.

    The files of `failing_checks` are beside the recipe.

    Args:
      directory: A new directory.
      orchestrator: `kubeflow` or `vertex`.
      store: Has the pipeline root; None for a local one. The environment must have its
        variables.
      recipe_settings: Arguments of `tiny.write_config` that replace those below.
      changes: Settings by dotted key of another job, which is compiled too.
      **settings: Settings of the orchestrator besides image and pipeline root.
    """
    root = f"{store.new_bucket()}/bert" if store else str(directory / "root")
    settings |= {"image": "registry/bert:1", "pipeline_root": root}
    defaults = {
        "splits": ("train", "eval"),
        "evaluator": {
            "thresholds": {"accuracy": 0.0},
            "significance": 0.0,
            "max_regression": {"accuracy": 1.0},
        },
        "checks": {
            "linear_model": {"action": "warn"},
            "swapped_words": {"lists": {"animals": [["cat", "dog"]]}},
        },
        "serving": {"rows": 4, "portable": True},
        orchestrator: settings,
    }
    recipe = tiny.write_config(
        directory / "recipe.yaml", **{**defaults, **(recipe_settings or {})}
    )

    def compile_recipe(name, **changes):
        config = load_config(recipe, {"trainer.warm_start": "champion", **changes})
        job = compilation.compile_job(config, orchestrator)
        compilation.write_job(job, directory / name)
        staging.copy(job.staged)
        return list(yaml.safe_load_all((directory / name).read_text()))

    documents = compile_recipe("pipeline.yaml")
    with failing_checks.beside(recipe):
        changed = compile_recipe("changed.yaml", **changes)[0] if changes else {}
    for folder in ("encoder", "data", "output"):
        shutil.rmtree(directory / folder)
    state = directory / "state"
    with (
        worker.start(store=store) as server,
        JobRunner(orchestrator, root, state, store=store, server=server) as runner,
    ):
        yield Job(documents, runner, root, changed)


def up_to(spec: dict[str, Any], task: str) -> dict[str, Any]:
    """Returns a spec with a task and the tasks that it depends on."""
    tasks = spec["root"]["dag"]["tasks"]
    kept, pending = set(), [task]
    while pending:
        name = pending.pop()
        kept.add(name)
        pending += tasks[name].get("dependentTasks", [])
    part = copy.deepcopy(spec)
    part["root"]["dag"]["tasks"] = {name: tasks[name] for name in sorted(kept)}
    return part


def output(run: JobRun, task: str, key: str) -> str:
    return run.tasks[task].outputs[key]["uri"]


def read_json(*path: str) -> Any:
    return files.read_json(uris.join(*path))


def executed(run: JobRun) -> set[str]:
    """Returns the tasks that were not taken from the cache."""
    return {name for name, state in run.states.items() if state == "run"}


def checks(run: JobRun) -> list[CheckResult]:
    """Returns the results of all checks; those after the push included."""
    directory = os.path.dirname(output(run, "Report", "report"))
    report = ChecksReport.read(directory)
    assert report
    return report.results


def verdict(run: JobRun):
    return Verdict.read(output(run, "Evaluator", "verdict"))


def started_from(run: JobRun) -> str:
    """Returns the initial weights that the training recorded."""
    return read_json(output(run, "Trainer", "model_run"), "metrics.json")[
        "started_from"
    ]


def learning_rate(run: JobRun) -> float:
    """Returns the learning rate of the training's hyperparameters."""
    directory = output(run, "Hyperparameters", "hyperparameters")
    (name,) = tf.io.gfile.listdir(directory)
    return read_json(directory, name)["learning_rate"]


def check_serving(run: JobRun, served: str) -> None:
    """Checks that a run blessed and pushed a model, and that it predicts a pair.

    Its portable folder predicts the same.
    """
    blessing = run.tasks["ModelChecks"].outputs["blessing"]
    assert blessing["metadata"]["blessed"] == 1
    report = read_json(blessing["uri"], "serving_check.json")
    assert report["reasons"] == []
    assert max(report["max_skew"].values()) < 1e-5
    pushed = run.tasks["AtomicPusher"].outputs["pushed_model"]["metadata"]
    assert pushed["pushed_destination"] == served
    signature = tf.saved_model.load(served).signatures["serving_default"]
    prediction = signature(
        sentence1=tf.constant(["The cat."]), sentence2=tf.constant(["A cat!"])
    )
    assert prediction["probabilities"].shape == (1, 2)
    with tempfile.TemporaryDirectory() as folder:
        files.copy_directory(uris.join(served, PORTABLE_DIRECTORY), folder)
        portable = PortableModel(folder).predict([["The cat."], ["A cat!"]])
    np.testing.assert_allclose(
        portable["probabilities"], prediction["probabilities"], atol=1e-5
    )
