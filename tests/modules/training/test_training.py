"""The loop: the best model, resuming, recovery, restarts."""

import logging
import math
import os
import signal

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modules import environment
from modules.config.trainer import TrainerConfig
from modules.training import actions, checkpoints, loop, run_fn
from modules.training import fine_tuning_trainer as trainer_lib
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny
from tests.modules.training.summaries import scalars

STEPS = 12  # 2 epochs of 48 rows in batches of 8


@pytest.fixture(autouse=True, scope="module")
def fast_tracing():
    environment.set_up()


@pytest.fixture
def lines(caplog):
    """What the modules log."""
    caplog.set_level(logging.INFO, logger="modules")
    return lambda: [
        r.getMessage() for r in caplog.records if r.name.startswith("modules")
    ]


@pytest.fixture
def train(tmp_path):
    """Trains in a directory; settings tell one training from another."""

    def train(name="run", **settings):
        task, _, params = tiny.build_experiment(
            tmp_path, **{"learning_rate": 3e-3, "epochs": 2, **settings}
        )
        strategy = tf.distribute.OneDeviceStrategy("CPU:0")
        directory = str(tmp_path / name)
        return run_fn.train(task, params, strategy, directory)

    return train


class Killed(BaseException):
    """In the place of SIGKILL, where a process of its own would be too slow."""


@pytest.fixture
def kill_at(monkeypatch):
    """Ends the training right before a step, as a kill would: nothing is saved."""

    def kill_at(step):
        original = trainer_lib.FineTuningTrainer.train

        def train(self, num_steps):
            if self.global_step.numpy() + num_steps > step:
                raise Killed
            return original(self, num_steps)

        monkeypatch.setattr(trainer_lib.FineTuningTrainer, "train", train)

    return kill_at


def test_training_logs_its_steps_and_ends_with_a_result(train, tmp_path, lines):
    result = train(evaluation_interval=5)
    assert result.steps == STEPS
    assert [line.split(" loss")[0] for line in lines() if " loss" in line] == [
        *("step 5/12", "step 5 evaluation"),
        *("step 6/12", "step 10/12", "step 10 evaluation"),
        *("step 12/12", "step 12 evaluation"),
    ]
    history = checkpoints.read_json(str(tmp_path / "run" / "evaluations.json"))
    assert [entry["step"] for entry in history] == [5, 10, 12]
    best = max(history, key=lambda entry: entry["accuracy"])
    assert result.best_step == best["step"]
    assert result.metrics["accuracy"] == best["accuracy"]


def test_summaries_show_loss_rate_gradient_norm_and_speed(train, tmp_path):
    train(steps_per_loop=3)
    for tag in (
        *("training_loss", "learning_rate", "gradient_norm"),
        *("examples_per_second", "steps_per_second", "accuracy"),
    ):
        assert sorted(scalars(tmp_path / "run" / "train", tag)) == [3, 6, 9, 12]
    for tag in ("validation_loss", "accuracy", "f1"):
        assert sorted(scalars(tmp_path / "run" / "validation", tag)) == [6, 12]


def test_best_model_is_restored_not_the_last(train, tmp_path):
    # So high a rate that the model gets worse again.
    settings = {"learning_rate": 0.3, "evaluation_interval": 1, "warmup_fraction": 0.0}
    result = train(**settings)
    task, _, params = tiny.build_experiment(tmp_path, **settings)
    own_task = FineTuningTask(params.task, task)
    model = run_fn.restore_best(own_task, str(tmp_path / "run"))
    rows = trainer_lib.predict(own_task, model, params.task.validation_data)
    found = own_task.reduce_aggregated_logs(rows)
    assert result.best_step < STEPS
    assert found["accuracy"] == pytest.approx(result.metrics["accuracy"])
    assert found["validation_loss"] == pytest.approx(
        result.metrics["validation_loss"], rel=1e-5
    )


def test_moving_average_is_what_is_kept(train, tmp_path):
    settings = {
        "learning_rate": 1e-2,
        "optimization": {"ema": {"average_decay": 0.9}},
    }
    result = train(**settings)
    task, _, params = tiny.build_experiment(tmp_path, **settings)
    own_task = FineTuningTask(params.task, task)
    model = run_fn.restore_best(own_task, str(tmp_path / "run"))
    rows = trainer_lib.predict(own_task, model, params.task.validation_data)
    found = own_task.reduce_aggregated_logs(rows)["validation_loss"]
    assert found == pytest.approx(result.metrics["validation_loss"], rel=1e-4)


def test_one_seed_gives_the_same_losses_twice_and_another_others(train, tmp_path):
    settings = {"steps_per_loop": 1, "dropout": 0.1}
    curves = []
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        train(name, seed=seed, **settings)
        curves.append(scalars(tmp_path / name / "train", "training_loss"))
    first, again, other = curves
    assert first == again
    assert first != other


def test_nothing_on_one_device_tunes_itself_and_is_slow_to_drop(tmp_path):
    task, _, params = tiny.build_experiment(tmp_path)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        trainer = trainer_lib.build_trainer(FineTuningTask(params.task, task), params)
    for dataset in (trainer.train_dataset, trainer.eval_dataset):
        assert dataset.options().autotune.enabled is False


def test_early_stop_after_evaluations_without_a_better_one(train, lines):
    result = train(
        learning_rate=1e-9,
        epochs=20,
        evaluation_interval=1,
        patience=3,
        steps_per_loop=1,
    )
    assert result.steps < 20 * 6
    assert result.steps - result.best_step == 3
    assert "no better accuracy in 3 evaluations (trainer.patience)" in result.stopped
    assert any(line.startswith("stopped at step") for line in lines())


@pytest.mark.parametrize("step", [1, 5, 6, 7, 11])
def test_killed_training_goes_on_as_if_nothing_had_happened(
    train, tmp_path, monkeypatch, kill_at, step, lines
):
    settings = {"steps_per_loop": 1, "checkpoint_interval": 2, "evaluation_interval": 3}
    whole = train("whole", **settings)
    with monkeypatch.context():
        kill_at(step)
        with pytest.raises(Killed):
            train("killed", **settings)
        monkeypatch.undo()
    result = train("killed", **settings)
    assert result.steps == whole.steps == STEPS
    # At most one interval is lost.
    resumed = [line for line in lines() if line.startswith("resumed from step")]
    assert int(resumed[-1].split()[3].rstrip(",")) >= step - 2
    # No dropout: the same rows give the same losses.
    curves = [
        scalars(tmp_path / name / "train", "training_loss")
        for name in ("whole", "killed")
    ]
    assert curves[0].keys() == curves[1].keys()
    np.testing.assert_allclose(
        list(curves[0].values()), [curves[1][s] for s in curves[0]], rtol=1e-4
    )
    histories = [
        checkpoints.read_json(str(tmp_path / name / "evaluations.json"))
        for name in ("whole", "killed")
    ]
    assert [e["step"] for e in histories[0]] == [e["step"] for e in histories[1]]
    assert result.metrics == pytest.approx(whole.metrics, rel=1e-3)


def test_finished_training_returns_its_result_at_once(train, monkeypatch):
    result = train()
    monkeypatch.setattr(run_fn, "build_trainer", None)  # it would be called
    assert train() == result


def test_finished_training_leaves_the_best_weights_alone(train, tmp_path):
    result = train()
    names = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert f"weights-{result.best_step}.index" in names
    assert not any(name.startswith("ckpt") or name == "checkpoint" for name in names)


@pytest.mark.parametrize("damage", ["truncate", "delete", "flip"])
def test_damaged_newest_checkpoint_falls_back_to_the_one_before(
    train, tmp_path, monkeypatch, kill_at, damage, lines
):
    settings = {"steps_per_loop": 1, "checkpoint_interval": 2}
    with monkeypatch.context():
        kill_at(7)
        with pytest.raises(Killed):
            train(**settings)
        monkeypatch.undo()
    path = tmp_path / "run" / "ckpt-6.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    if damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "delete":
        path.unlink()
    else:
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    assert train(**settings).steps == STEPS
    assert any("ckpt-6 is left out: it cannot be read" in line for line in lines())
    assert any(line.startswith("resumed from step 4") for line in lines())


def test_step_that_is_trained_again_is_evaluated_again(
    train, tmp_path, monkeypatch, kill_at, lines
):
    settings = {"checkpoint_interval": 3, "evaluation_interval": 3}
    with monkeypatch.context():
        kill_at(7)
        with pytest.raises(Killed):
            train(**settings)
        monkeypatch.undo()
    (tmp_path / "run" / "ckpt-6.data-00000-of-00001").unlink()
    train(**settings)
    evaluated = [line.split(" loss")[0] for line in lines() if "evaluation" in line]
    assert evaluated == [f"step {step} evaluation" for step in (3, 6, 6, 9, STEPS)]


def test_evaluations_after_the_restored_step_do_not_count_for_patience(tmp_path, train):
    settings = {"learning_rate": 1e-9, "evaluation_interval": 1, "patience": 2}
    (tmp_path / "run").mkdir()
    later = [{"step": step, "accuracy": 1.0 / step} for step in (1, 2, 3)]
    checkpoints.write_json(str(tmp_path / "run" / "evaluations.json"), later)
    assert train(**settings).steps == 3


def test_sigterm_saves_before_it_exits(train, tmp_path, monkeypatch, lines):
    original = trainer_lib.FineTuningTrainer.train

    def train_then_terminate(self, num_steps):
        output = original(self, num_steps)
        if self.global_step.numpy() == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return output

    handler = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(trainer_lib.FineTuningTrainer, "train", train_then_terminate)
        with pytest.raises(SystemExit) as stopped:
            train(steps_per_loop=1)
    assert stopped.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is handler
    assert (tmp_path / "run" / "ckpt-5.index").is_file()
    assert train(steps_per_loop=1).steps == STEPS
    assert any(line.startswith("resumed from step 5") for line in lines())


def test_sigterm_after_the_last_evaluation_exits_with_everything_saved(
    train, tmp_path, monkeypatch, lines
):
    original = actions.Progress.restart

    def restart_then_terminate(self):  # the last action of an evaluation
        original(self)
        if self._global_step.numpy() == STEPS:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(actions.Progress, "restart", restart_then_terminate)
        with pytest.raises(SystemExit) as stopped:
            train()
    assert stopped.value.code == 128 + signal.SIGTERM
    assert (tmp_path / "run" / f"ckpt-{STEPS}.index").is_file()
    evaluations = [line for line in lines() if "evaluation loss" in line]
    monkeypatch.setattr(trainer_lib.FineTuningTrainer, "train", None)  # not called
    assert train().steps == STEPS
    assert [line for line in lines() if "evaluation loss" in line] == evaluations


class Poisoned(FineTuningTask):
    """Its loss is NaN at some steps, each so many times."""

    nan_at: dict[int, int] = {}  # noqa: RUF012

    def build_losses(self, labels, model_outputs, aux_losses=None):
        loss = super().build_losses(labels, model_outputs, aux_losses)

        def poison(step):
            if self.nan_at.get(int(step), 0) > 0:
                self.nan_at[int(step)] -= 1
                return np.float32("nan")
            return np.float32(1)

        return loss * tf.py_function(poison, [self.step.read_value()], tf.float32)


@pytest.fixture
def poisoned(monkeypatch):
    """Makes the loss NaN at steps, so many times each."""

    def poison(nan_at):
        monkeypatch.setattr(Poisoned, "nan_at", dict(nan_at))
        monkeypatch.setattr(run_fn, "FineTuningTask", Poisoned)
        original = trainer_lib.FineTuningTrainer.__init__

        def init(self, *args, **settings):
            original(self, *args, **settings)
            self.task.step = self.global_step

        monkeypatch.setattr(trainer_lib.FineTuningTrainer, "__init__", init)

    return poison


@pytest.mark.parametrize("step", [0, 7])
def test_loss_that_is_no_number_goes_back_to_the_last_good_checkpoint(
    train, poisoned, step, tmp_path, lines
):
    poisoned({step: 1})
    result = train(steps_per_loop=1, checkpoint_interval=3)
    assert result.steps == STEPS
    expected = f"resumed from step {step // 3 * 3}"
    assert any(line.startswith(expected) for line in lines())
    losses = scalars(tmp_path / "run" / "validation", "validation_loss")
    assert np.isfinite(list(losses.values())).all()


def test_loss_that_stays_no_number_fails_with_what_to_do(train, poisoned):
    poisoned({4: 99})
    with pytest.raises(loop.TrainingError, match=r"NaN.*trainer\.learning_rate"):
        train(steps_per_loop=1, recovery_max_trials=2)


def test_loss_above_its_bound_goes_back_too(train):
    with pytest.raises(loop.TrainingError, match=r"larger than the bound 0\.01"):
        train(steps_per_loop=1, loss_upper_bound=0.01, recovery_max_trials=1)


@pytest.fixture
def spoil_weights(monkeypatch):
    """Gives all weights a value after the last update of a step, so many times."""

    def spoil_weights(step, times, value=math.nan):
        original = trainer_lib.FineTuningTrainer.train
        left = [times]

        def train(self, num_steps):
            output = original(self, num_steps)
            if self.global_step.numpy() == step and left[0]:
                left[0] -= 1
                for variable in self.model.trainable_variables:
                    variable.assign(tf.fill(variable.shape, value))
            return output

        monkeypatch.setattr(trainer_lib.FineTuningTrainer, "train", train)

    return spoil_weights


@pytest.mark.parametrize(("step", "good"), [(6, 4), (STEPS, 6)])
def test_weights_that_are_nan_at_an_evaluation_go_back_to_the_last_good_checkpoint(
    train, spoil_weights, step, good, tmp_path, lines
):
    spoil_weights(step, times=1)
    result = train(checkpoint_interval=4, patience=1, evaluation_interval=6)
    assert result.steps == STEPS
    assert any(line.startswith(f"resumed from step {good}") for line in lines())
    history = checkpoints.read_json(str(tmp_path / "run" / "evaluations.json"))
    assert [entry["step"] for entry in history] == [6, STEPS]
    assert None not in [value for entry in history for value in entry.values()]
    losses = scalars(tmp_path / "run" / "validation", "validation_loss")
    assert list(losses) == [6, STEPS]
    assert np.isfinite(list(losses.values())).all()


def test_outputs_that_overflow_go_back_to_the_checkpoint_before_the_evaluation(
    train, spoil_weights, tmp_path, lines
):
    # The weights are finite, and each evaluation follows a checkpoint of its step.
    spoil_weights(6, times=2, value=3e38)
    with pytest.raises(loop.TrainingError, match=r"NaN.*trainer\.learning_rate"):
        train(recovery_max_trials=1)
    assert any(line.startswith("resumed from step 0") for line in lines())
    newest = tf.train.latest_checkpoint(str(tmp_path / "run"))
    assert newest.endswith("ckpt-0")  # a restarted job resumes from it
    assert train(recovery_max_trials=1).steps == STEPS
    history = checkpoints.read_json(str(tmp_path / "run" / "evaluations.json"))
    assert [entry["step"] for entry in history] == [6, STEPS]


def test_weights_that_stay_nan_fail_with_what_to_do(train, spoil_weights):
    spoil_weights(6, times=99)
    with pytest.raises(loop.TrainingError, match=r"NaN.*trainer\.learning_rate"):
        train(epochs=1, checkpoint_interval=4, recovery_max_trials=1)


def test_checkpoint_with_weights_that_are_no_numbers_is_no_good_one(tmp_path):
    weights = tf.Variable([1.0, float("inf")])
    path = tf.train.Checkpoint(weights=weights).write(str(tmp_path / "ckpt"))
    assert "is not finite" in checkpoints.find_problem(path)
    weights.assign([1.0, 2.0])
    path = tf.train.Checkpoint(weights=weights).write(str(tmp_path / "ckpt"))
    assert checkpoints.find_problem(path) is None


def test_key_changes_with_what_is_trained_and_not_with_where(tmp_path, install_version):
    examples = tiny.write_transformed(tmp_path / "a" / "train.gz")
    moved = tiny.write_transformed(tmp_path / "b" / "train.gz")
    settings = {
        "task": {"metric": "f1"},
        "max_seq_length": 32,
        "encoder_fingerprint": "1",
        "code_fingerprint": "2",
        "encoder": "here",
        "checkpoints": "here",
        "machine": "small",
    }
    config = TrainerConfig(epochs=1)
    splits = {"train": [str(examples)]}
    key = run_fn.training_key(settings, config, splits)
    elsewhere = {**settings, **dict.fromkeys(("encoder", "checkpoints", "machine"), "")}
    assert run_fn.training_key(elsewhere, config, {"train": [str(moved)]}) == key
    for change in (
        {"task": {"metric": "accuracy"}},
        {"max_seq_length": 64},
        {"encoder_fingerprint": "3"},
        {"code_fingerprint": "3"},
    ):
        assert run_fn.training_key(settings | change, config, splits) != key
    assert run_fn.training_key(settings, TrainerConfig(epochs=2), splits) != key
    other = tiny.write_transformed(tmp_path / "b" / "train.gz", seed=5)
    assert run_fn.training_key(settings, config, {"train": [str(other)]}) != key
    install_version("tf-keras", "9.9.9")
    assert run_fn.training_key(settings, config, splits) != key


def test_empty_training_split_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"training split .*train\.gz.* no examples"):
        tiny.build_experiment(tmp_path, rows=0)


@pytest.fixture(autouse=True)
def fresh_keras():
    yield
    tf_keras.backend.clear_session()
