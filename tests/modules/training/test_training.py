"""Training from one seed: logs, summaries, the best model, early stopping."""

import numpy as np
import orbit
import pytest
import tensorflow as tf
import yaml

from contracts.settings.trainer import TrainerConfig
from contracts.storage import files
from contracts.task.definition import TaskConfig
from modules.evaluation.prediction_files import Predictions
from modules.training import (
    checkpoints,
    fine_tuning_trainer,
    loop,
    run_fn,
)
from tests import tiny
from tests.modules.training.small_model import SmallTask
from tests.modules.training.summaries import scalars

pytestmark = pytest.mark.slow

STEPS = 12  # 2 epochs of 48 rows in batches of 8


def test_log_and_summaries_have_the_steps_and_the_result(train, tmp_path, lines):
    """The summaries have the same steps as the log."""
    result = train(evaluation_interval=5)
    assert result.steps == STEPS
    assert [line.split(" loss")[0] for line in lines() if " loss" in line] == [
        *("step 5/12", "step 5 evaluation"),
        *("step 6/12", "step 10/12", "step 10 evaluation"),
        *("step 12/12", "step 12 evaluation"),
    ]
    record = files.read_json(str(tmp_path / "run" / "record.json"))
    assert [entry["step"] for entry in record["evaluations"]] == [5, 10, 12]
    metrics = [entry["metrics"] for entry in record["evaluations"]]
    assert len({values["accuracy"] for values in metrics}) == 1
    best = min(record["evaluations"], key=lambda e: e["metrics"]["validation_loss"])
    assert record["best"] == best
    assert (result.best_step, result.metrics) == (best["step"], best["metrics"])
    for tag in (
        *("training_loss", "learning_rate", "gradient_norm"),
        *("examples_per_second", "steps_per_second", "accuracy"),
    ):
        assert sorted(scalars(tmp_path / "run" / "train", tag)) == [5, 6, 10, 12]
    for tag in ("validation_loss", "accuracy", "f1"):
        assert sorted(scalars(tmp_path / "run" / "validation", tag)) == [5, 10, 12]


def test_point_of_the_training_curves_is_written_once_an_interval(
    train, tmp_path, after_steps
):
    # Loops end at steps 2, 4, 5, 7, 9, 10 and 12.
    settings = {"checkpoint_interval": 5, "evaluation_interval": 12}
    settings |= {"steps_per_loop": 2, "summary_interval": 4}
    interruptions = [7]

    def interrupt(trainer):
        if int(trainer.global_step.numpy()) in interruptions:
            interruptions.clear()
            raise KeyboardInterrupt

    after_steps(interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(**settings)
    train(**settings)  # from step 5, between two points
    losses = scalars(tmp_path / "run" / "train", "training_loss")
    assert sorted(losses) == [4, 9, 12]


def test_training_stops_early_and_step_0_is_never_the_best(train, tmp_path, lines):
    """An evaluation before the first step is recorded and never the best."""
    # So small a rate that all evaluations are equal.
    settings = {"learning_rate": 1e-12, "epochs": 20, "evaluation_interval": 2}
    result = train(evaluate_first=True, patience=3, **settings)
    record = files.read_json(str(tmp_path / "run" / "record.json"))
    assert [entry["step"] for entry in record["evaluations"]] == [0, 2, 4, 6, 8]
    values = {entry["metrics"]["accuracy"] for entry in record["evaluations"]}
    assert len(values) == 1
    assert (result.best_step, result.steps) == (2, 8)
    evaluated = scalars(tmp_path / "run" / "validation", "accuracy")
    assert sorted(evaluated) == [0, 2, 4, 6, 8]
    assert "no better accuracy in 3 evaluations (trainer.patience)" in result.stopped
    assert any(line.startswith("stopped at step") for line in lines())


def predict_best(directory, dtype="float32", **settings):
    """Returns what the best model of a training predicts for the evaluation split."""
    definition, _, params = tiny.build_experiment(directory, **settings)
    task = SmallTask(params.task, definition)
    model = run_fn.restore_best(task, str(directory / "run"), dtype)
    data = params.task.validation_data
    return task.collect(fine_tuning_trainer.predict(task, model, data))


def evaluate(rows):
    """Returns the metrics of predictions under the names of an evaluation."""
    metrics = rows.compute_metrics(TaskConfig())
    return {"validation_loss": metrics.pop("loss"), **metrics}


def test_best_model_is_restored_and_evaluated_on_the_first_rows(train, tmp_path):
    # So high a rate that the model gets worse again.
    settings = {"learning_rate": 0.3, "evaluation_interval": 2, "warmup_fraction": 0.0}
    result = train(**settings, evaluation_batch_size=10, evaluation_steps=2)
    assert result.best_step < STEPS
    rows = predict_best(tmp_path, **settings)
    columns = (rows.ids, rows.labels, rows.outputs, rows.losses)
    first = Predictions(*(column[:20] for column in columns))
    assert result.metrics == pytest.approx(evaluate(first), rel=1e-5)
    # In bfloat16 it predicts nearly the same.
    reduced = predict_best(tmp_path, dtype="bfloat16", **settings)
    assert 1e-5 < np.abs(reduced.outputs - rows.outputs).max() < 0.05


def test_params_yaml_records_what_ran(train, tmp_path, monkeypatch):
    settings = {
        "batch_size": 16,
        "evaluation_batch_size": 12,
        "evaluation_steps": 3,
        "evaluation_interval": 2,
        "evaluate_first": True,
        "checkpoint_interval": 3,
        "max_checkpoints": 2,
        "delete_checkpoints": False,
        "async_checkpoints": True,
        "steps_per_loop": 2,
        "summary_interval": 4,
        "dropout": 0.3,
    }
    controllers = []
    build = orbit.Controller

    def record(**arguments):
        controllers.append(build(**arguments))
        return controllers[-1]

    monkeypatch.setattr(loop.orbit, "Controller", record)
    train(**settings)
    (controller,) = controllers
    content = yaml.safe_load((tmp_path / "run" / "params.yaml").read_text())
    trainer, task = content["trainer"], content["task"]
    assert trainer["train_steps"] == int(controller.global_step.numpy()) == 6
    assert trainer["max_to_keep"] == controller.checkpoint_manager._max_to_keep == 2
    kept = {int(path.stem[5:]) for path in (tmp_path / "run").glob("ckpt-*.index")}
    assert sorted(kept) == [4, 6]
    assert trainer["checkpoint_interval"] == 3
    assert controller.checkpoint_manager.checkpoint_interval == 3
    assert trainer["async_checkpoints"] is True
    assert controller._checkpoint_options.enable_async is True
    assert trainer["steps_per_loop"] == controller.steps_per_loop == 2
    assert trainer["summary_interval"] == 4
    assert sorted(scalars(tmp_path / "run" / "train", "training_loss")) == [4]
    assert (trainer["validation_interval"], trainer["validation_steps"]) == (2, 3)
    losses = scalars(tmp_path / "run" / "validation", "validation_loss")
    assert sorted(losses) == [0, 2, 4, 6]
    assert task["train_data"]["global_batch_size"] == 16
    assert task["validation_data"]["global_batch_size"] == 12
    assert task["validation_data"]["first_rows"] == 36
    rates = [task[f"{name}dropout"] for name in ("", "attention_", "head_")]
    assert rates == pytest.approx([0.3, 0.3, 0.51])
    assert sorted(scalars(tmp_path / "run" / "validation", "steps_per_second"))


def test_moving_average_is_saved_as_the_best_model(train, tmp_path):
    settings = {
        "learning_rate": 1e-2,
        "optimization": {"ema": {"average_decay": 0.9}},
    }
    result = train(**settings)
    metrics = evaluate(predict_best(tmp_path, **settings))
    expected = result.metrics["validation_loss"]
    assert metrics["validation_loss"] == pytest.approx(expected, rel=1e-4)


def test_no_dataset_on_one_device_is_autotuned(tmp_path):
    task, _, params = tiny.build_experiment(tmp_path)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        trainer = fine_tuning_trainer.build_trainer(
            SmallTask(params.task, task), params
        )
    for dataset in (trainer.train_dataset, trainer.eval_dataset):
        assert dataset.options().autotune.enabled is False


def test_checkpoint_key_depends_on_what_is_trained_and_not_where(
    tmp_path, install_version
):
    settings = {
        "task": {"metric": "f1"},
        "packing": {"max_seq_length": 32},
        "encoder_fingerprint": "1",
        "code_fingerprint": "2",
        "encoder": "here",
        "checkpoints": "here",
        "machine": "small",
    }
    written = [
        str(tiny.write_transformed(tmp_path / name / "train.gz", seed=seed))
        for name, seed in (("a", 0), ("moved", 0), ("other", 5))
    ]

    def key(path=written[0], changes=None, **trainer):
        hyperparameters = TrainerConfig(**{"epochs": 1, **trainer}).fingerprint()
        return checkpoints.compute_key(
            {**settings, **(changes or {})}, hyperparameters, {"train": [path]}
        )

    elsewhere = dict.fromkeys(("encoder", "checkpoints", "machine"), "")
    same = [
        key(written[1], elsewhere),
        key(changes={"decision": {"metric": "f1"}}),  # only exports again
        key(temperature_scaling=False),
        key(max_checkpoints=5, delete_checkpoints=False),
        key(async_checkpoints=True, summary_interval=100),
    ]
    other = [
        key(written[2]),
        key(epochs=2),
        key(class_weights="auto"),
        key(changes={"task": {"metric": "accuracy"}}),
        key(changes={"packing": {"max_seq_length": 32, "keep": "tail"}}),
        key(changes={"encoder_fingerprint": "3"}),
        key(changes={"code_fingerprint": "3"}),
    ]
    assert set(same) == {key()}
    assert len({key(), *other}) == 1 + len(other)
    before = key()
    install_version("tf-keras", "9.9.9")
    assert key() != before


def test_empty_training_split_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"training split .*train\.gz.* no examples"):
        tiny.build_experiment(tmp_path, rows=0)
