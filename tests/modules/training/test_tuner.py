"""The search, from transformed Examples to the Trainer."""

import dataclasses
import json
import shutil

import keras_tuner
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
from tfx.components.tuner import executor
from tfx.types import standard_artifacts

from components.hyperparameters.component import Hyperparameters_Executor
from contracts.settings.trainer import TrainerConfig
from contracts.storage import files
from modules.training import run_fn, trials, tuner
from modules.training.loop import TrainingError
from tests import exported
from tests.modules.training import run_arguments

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_task")]

TASK = exported.TASKS["pairs"]
SPLITS = ("train", "eval", "test")
RECIPE = {
    "epochs": 2,
    "batch_size": 8,
    "learning_rate": 3e-3,
    "strategy": "one_device",
    "mixed_precision": "float32",  # `auto` depends on the machine
}
SPACE = {"learning_rate": [1e-4, 1e-2, "log"], "warmup_fraction": [0.0, 0.1]}


def search_in(transformed, directory, space=SPACE, trials=2, **trainer):
    """Searches as TFX's executor does, and returns its tuner."""
    fn_args = run_arguments.build(transformed, directory, TASK, SPLITS)
    fn_args.custom_config |= {
        "trainer": TrainerConfig(**RECIPE | trainer).model_dump(),
        "tuner": {"trials": trials, "space": space},
    }
    search = tuner.tuner_fn(fn_args).tuner
    search.search_space_summary()
    search.search()
    search.results_summary()
    return search


@pytest.fixture(scope="module")
def whole(transformed, small_task, tmp_path_factory):
    """An uninterrupted search of 2 trials: its directory, and TFX's tuner."""
    directory = tmp_path_factory.mktemp("whole")
    return directory, search_in(transformed, directory)


@pytest.fixture
def search(transformed, tmp_path):
    return lambda **settings: search_in(transformed, tmp_path, **settings)


@pytest.fixture
def trained(monkeypatch):
    """Directories of the trainings that were started."""
    train, directories = run_fn.train, []

    def count(task, params, strategy, directory, **options):
        directories.append(directory)
        return train(task, params, strategy, directory, **options)

    monkeypatch.setattr(run_fn, "train", count)
    return directories


def record(directory):
    """Returns the recorded trials of the only search."""
    (path,) = (directory / "training").glob("*/search.json")
    return trials.read(str(path.parent))


def summary(directory):
    """Returns the recorded trials without what depends on the machine."""
    return [dataclasses.replace(trial, seconds=0) for trial in record(directory)]


def test_killed_search_resumes_with_the_finished_trials(
    whole, search, trained, tmp_path, monkeypatch
):
    monkeypatch.setattr(run_fn, "train", stop_at_second(run_fn.train))
    with pytest.raises(SystemExit):
        search()
    first, running = record(tmp_path)
    assert (first.state, running.state, running.kills) == ("completed", "running", 0)
    search()
    assert trained[1] == trained[2]  # the trial that was stopped
    assert len(trained) == 3
    assert summary(tmp_path) == summary(whole[0])


def stop_at_second(train):
    """Returns a training that is stopped after an evaluation of the second trial."""
    calls = []

    def stopped_training(*args, after_evaluation, **options):
        def stop(record):
            after_evaluation(record)
            if len(calls) == 2:
                raise SystemExit(143)

        calls.append(args)
        return train(*args, after_evaluation=stop, **options)

    return stopped_training


def test_first_trial_has_the_recipes_settings_and_more_trials_continue_the_search(
    transformed, whole, trained, tmp_path
):
    directory, _ = whole
    assert record(directory)[0].values == {
        "learning_rate": 3e-3,
        "warmup_fraction": 0.1,  # the default
    }
    shutil.copytree(directory, tmp_path / "copy")
    search_in(transformed, tmp_path / "copy", trials=3)
    assert record(tmp_path / "copy")[:2] == record(directory)
    assert len(trained) == 1


def test_only_the_weights_of_the_best_trial_are_kept(whole):
    directory, _ = whole
    recorded = record(directory)
    best = trials.find_best(recorded)
    assert best.value == max(trial.value for trial in recorded)
    kept = {
        path.parent.parent.name for path in directory.glob("training/*/seed-0/best")
    }
    assert kept == {best.key}


def test_trainer_gets_the_best_settings_and_does_not_train_again(
    transformed, whole, tmp_path, monkeypatch
):
    directory, search = whole
    outputs = {}
    for key, kind in (
        ("best_hyperparameters", standard_artifacts.HyperParameters),
        ("tuner_results", standard_artifacts.TunerResults),
    ):
        outputs[key] = [kind()]
        outputs[key][0].uri = str(tmp_path / key)
    executor.write_best_hyperparameters(search, outputs)
    best = trials.find_best(record(directory))
    content = json.loads(
        (tmp_path / "best_hyperparameters" / "best_hyperparameters.txt").read_text()
    )
    found = keras_tuner.HyperParameters.from_config(content)
    assert found.values == best.values
    assert {parameter.name for parameter in found.space} == set(SPACE)
    results = json.loads((tmp_path / "tuner_results/tuner_results.json").read_text())
    assert results[0]["score"] == best.value
    assert len(results) == 2

    hyperparameters = standard_artifacts.HyperParameters()
    hyperparameters.uri = str(tmp_path / "hyperparameters")
    Hyperparameters_Executor().Do(
        {"best_hyperparameters": outputs["best_hyperparameters"]},
        {"hyperparameters": [hyperparameters]},
        {
            "settings": TrainerConfig(**RECIPE).model_dump_json(),
            "epochs": 2,
            "steps_per_epoch": 0,
            "learning_rate": 0.0,
            "fingerprint": "",
        },
    )
    fn_args = run_arguments.build(transformed, tmp_path, TASK, SPLITS)
    (file,) = (tmp_path / "hyperparameters").iterdir()
    fn_args.hyperparameters = json.loads(file.read_text())
    assert fn_args.hyperparameters["learning_rate"] == best.values["learning_rate"]
    fn_args.custom_config["checkpoints"] = str(directory / "training")
    monkeypatch.setattr(run_fn, "build_trainer", None)  # a call would fail
    run_fn.run_fn(fn_args)
    metrics = files.read_record(str(tmp_path / "model_run" / "metrics.json"))
    assert metrics["best"]["metrics"][TASK.metric] == best.value


def test_trial_below_the_median_is_pruned_after_its_first_evaluation(search, tmp_path):
    search(space={"learning_rate": [1e-2, 1e-7]}, trials=4, learning_rate=1e-2)
    first, second = record(tmp_path)  # the space has no other settings
    assert [position for position, _ in first.evaluations] == [10, 20]
    assert (second.state, second.value) == ("pruned", None)
    assert [position for position, _ in second.evaluations] == [10]
    assert second.evaluations[0][1] < first.evaluations[0][1]


def test_failed_trial_is_recorded_and_the_search_continues(
    search, tmp_path, monkeypatch
):
    train = run_fn.train
    errors = [
        TrainingError("The loss value is NaN"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
    ]

    def fail_first(*args, **options):
        if errors:
            raise errors.pop(0)
        return train(*args, **options)

    monkeypatch.setattr(run_fn, "train", fail_first)
    search(trials=3)
    recorded = record(tmp_path)
    assert [trial.state for trial in recorded] == ["failed", "failed", "completed"]
    assert "NaN" in recorded[0].reason
    assert "OOM" in recorded[1].reason


def test_trial_whose_process_is_always_killed_fails(whole, transformed, tmp_path):
    shutil.copytree(whole[0], tmp_path / "copy")
    (path,) = (tmp_path / "copy" / "training").glob("*/search.json")
    first, second = trials.read(str(path.parent))
    killed = dataclasses.replace(second, state="running", kills=3)
    trials.write(str(path.parent), [first, killed])
    search_in(transformed, tmp_path / "copy")
    *_, last = record(tmp_path / "copy")
    assert last.state == "failed"
    assert "killed 3 times" in last.reason


def test_search_without_a_completed_trial_is_an_error(search, monkeypatch):
    def fail(*_, **__):
        raise TrainingError("The loss value is NaN")

    monkeypatch.setattr(run_fn, "train", fail)
    with pytest.raises(tuner.SearchError, match=r"all 2 trials.*NaN"):
        search(trials=2)
