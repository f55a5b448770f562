"""A recipe with a search, through the whole pipeline."""

import io
import os
import threading
import time

import psutil
import pytest
import tensorflow as tf

from modules.training import trials
from pipeline.config import tfx_names
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.console import Console
from pipeline.local.run import run_locally
from report.content import PAGE_FILE, Report
from report.run_metadata import MetadataReader
from tests import tiny
from tests.e2e import jobs

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


def test_search_finds_settings_that_the_run_trains_with_and_reports(tmp_path):
    recipe = tiny.write_config(
        tmp_path / "recipe.yaml",
        evaluator={
            "split": "test",
            "thresholds": {"accuracy": 0.0},
        },
        checks={"linear_model": {"action": "ignore"}},
        tuner={
            "trials": 3,
            "space": {"learning_rate": [1e-4, 1e-2, "log"], "dropout": [0.0, 0.1]},
        },
    )
    config = load_config(recipe)
    output = io.StringIO()
    run = run_locally(config, Console(file=output, width=200))
    metric = config.task.metric
    assert f"best of 3 trials: {metric} " in output.getvalue()
    # The Trainer finds the training of the best trial finished.
    assert output.getvalue().count("seed 0 has been trained") == 1

    report = Report.read(str(run.directory))
    best = report.search.trials[report.search.best]
    assert report.search.metric == metric
    assert len(report.search.trials) == 3
    assert report.search.space == config.tuner.space
    for name, value in best.values.items():
        assert report.settings["trainer"][name] == value
    assert report.training.seeds[0].evaluations[metric].y[-1] == best.value
    assert '<section id="search">' in (run.directory / PAGE_FILE).read_text()

    def executed():
        reader = MetadataReader.of_file(OutputPaths.of(config).metadata)
        return {run.name for run, _ in reader.latest_run() if not run.is_cached}

    # The search is cached. A setting that is overridden is not searched.
    run_locally(config, Console(file=io.StringIO()))
    assert tfx_names.TUNER not in executed()
    overrides = {"trainer.learning_rate": 1e-3, "trainer.dropout": 0.0}
    without = load_config(recipe, overrides)
    fixed = run_locally(without, Console(file=io.StringIO()))
    assert tfx_names.TUNER not in executed()
    report = Report.read(str(fixed.directory))
    assert report.search is None
    assert report.settings["trainer"]["learning_rate"] == 1e-3


def test_killed_search_of_a_compiled_job_resumes_in_the_retry_of_its_task(
    tmp_path, object_store, pods, monkeypatch
):
    for name, value in object_store.environment.items():
        monkeypatch.setenv(name, value)
    recipe = {
        "splits": tiny.SPLITS,
        "evaluator": {"split": "test", "thresholds": {"accuracy": 0.0}},
        # Enough evaluations, and so checkpoints, to be killed between two of them.
        "trainer": {"epochs": 20, "batch_size": 16, "learning_rate": 0.001},
        "tuner": {"trials": 2, "space": {"learning_rate": [1e-4, 1e-2, "log"]}},
    }
    with jobs.compiled(tmp_path / "job", "kubeflow", object_store, recipe) as job:
        killer = threading.Thread(
            target=lose_pod_of_second_trial, args=(job,), daemon=True
        )
        killer.start()
        run = job.runner.run(jobs.up_to(job.spec, tfx_names.TRAINER))
        killer.join()
        task = run.tasks[tfx_names.TUNER]
        assert task.attempts == 2
        values, (first, second) = trials.read_artifact(
            jobs.output(run, tfx_names.TUNER, "best_hyperparameters")
        )
        assert (first.state, first.kills, second.kills) == ("completed", 0, 1)
        log = task.log.read_text()
        assert log.count("trial 1 of 2: {") == 1
        assert log.count("trial 2 of 2: {") == 2
        assert "resumed from step" in log
        assert first.values == {"learning_rate": 0.001}  # the recipe's
        assert jobs.learning_rate(run) == values["learning_rate"]
        # The Trainer finds the training of the best trial finished.
        assert "seed 0 has been trained" in run.tasks[tfx_names.TRAINER].log.read_text()


def lose_pod_of_second_trial(job):
    """Kills the pod of a search when its second trial has a checkpoint."""
    while not has_checkpoint_of_second_trial(job.root):
        time.sleep(0.5)
    job.runner.pod_is_lost = True
    (worker,) = (
        child
        for child in psutil.Process().children()
        if "tests.compiled.worker" in child.cmdline()
    )
    for process in worker.children(recursive=True):
        process.kill()


def has_checkpoint_of_second_trial(root):
    for path in tf.io.gfile.glob(f"{root}/training/*/search.json"):
        _, *second = trials.read(os.path.dirname(path))
        for trial in second:
            return tf.io.gfile.exists(f"{root}/training/{trial.key}/seed-0/checkpoint")
    return False
