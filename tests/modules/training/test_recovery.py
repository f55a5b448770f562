"""Losses and weights that are NaN: training restores a checkpoint, or fails."""

import math

import numpy as np
import pytest
import tensorflow as tf

from contracts.storage import files
from modules.training import fine_tuning_trainer, loop, run_fn
from tests.modules.training.small_model import SmallTask
from tests.modules.training.summaries import scalars
from tests.nightly import nightly

pytestmark = pytest.mark.slow

STEPS = 12  # 2 epochs of 48 rows in batches of 8


class PoisonedTask(SmallTask):
    """Its loss is NaN at some steps, a number of times each."""

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
def poison(train, monkeypatch):
    """Makes the loss NaN at steps, a number of times each."""

    def poison(nan_at):
        monkeypatch.setattr(PoisonedTask, "nan_at", dict(nan_at))
        monkeypatch.setattr(run_fn, "FineTuningTask", PoisonedTask)
        original = fine_tuning_trainer.FineTuningTrainer.__init__

        def init(self, *args, **settings):
            original(self, *args, **settings)
            self.task.step = self.global_step

        monkeypatch.setattr(fine_tuning_trainer.FineTuningTrainer, "__init__", init)

    return poison


def evaluated_steps(directory):
    record = files.read_json(str(directory / "record.json"))
    return [entry["step"] for entry in record["evaluations"]]


@pytest.mark.parametrize("step", [nightly(0), 7])
def test_nan_loss_goes_back_to_the_last_good_checkpoint(
    train, poison, step, tmp_path, lines
):
    poison({step: 1})
    result = train(steps_per_loop=1, checkpoint_interval=3)
    assert result.steps == STEPS
    assert any(
        line.startswith(f"resumed from step {step // 3 * 3}") for line in lines()
    )
    losses = scalars(tmp_path / "run" / "validation", "validation_loss")
    assert np.isfinite(list(losses.values())).all()


def test_loss_above_its_bound_goes_back_too(train):
    with pytest.raises(loop.TrainingError, match=r"larger than the bound 0\.01"):
        train(steps_per_loop=1, loss_upper_bound=0.01, recovery_max_trials=1)


@pytest.fixture
def spoil_weights(after_steps):
    """Sets all weights to a value after a step, a number of times."""

    def spoil_weights(step, times, value=math.nan):
        left = [times]

        def spoil(trainer):
            if trainer.global_step.numpy() == step and left[0]:
                left[0] -= 1
                for variable in trainer.model.trainable_variables:
                    variable.assign(tf.fill(variable.shape, value))

        after_steps(spoil)

    return spoil_weights


@pytest.mark.parametrize(("step", "good"), [(6, 4), nightly(STEPS, 6)])
def test_weights_that_are_nan_at_an_evaluation_go_back_to_the_last_good_checkpoint(
    train, spoil_weights, step, good, tmp_path, lines
):
    spoil_weights(step, times=1)
    result = train(checkpoint_interval=4, patience=1, evaluation_interval=6)
    assert result.steps == STEPS
    assert any(line.startswith(f"resumed from step {good}") for line in lines())
    record = files.read_json(str(tmp_path / "run" / "record.json"))
    assert evaluated_steps(tmp_path / "run") == [6, STEPS]
    assert None not in [v for e in record["evaluations"] for v in e["metrics"].values()]
    losses = scalars(tmp_path / "run" / "validation", "validation_loss")
    assert list(losses) == [6, STEPS]
    assert np.isfinite(list(losses.values())).all()


@pytest.mark.parametrize("is_asynchronous", [nightly(False), True])
def test_outputs_that_overflow_go_back_to_the_checkpoint_before_the_evaluation(
    train, spoil_weights, tmp_path, lines, is_asynchronous
):
    settings = {"recovery_max_trials": 1, "async_checkpoints": is_asynchronous}
    # The weights are finite, and each evaluation follows a checkpoint of its step.
    spoil_weights(6, times=2, value=3e38)
    with pytest.raises(loop.TrainingError, match=r"NaN.*trainer\.learning_rate"):
        train(**settings)
    assert any(line.startswith("resumed from step 0") for line in lines())
    newest = tf.train.latest_checkpoint(str(tmp_path / "run"))
    assert newest.endswith("ckpt-0")  # a restarted job resumes from it
    assert train(**settings).steps == STEPS
    assert evaluated_steps(tmp_path / "run") == [6, STEPS]


def test_training_without_an_intact_checkpoint_to_go_back_to_fails(
    train, after_steps, tmp_path
):
    def damage(trainer):
        if trainer.global_step.numpy() == 8:
            for path in (tmp_path / "run").glob("ckpt-*.data-*"):
                path.write_bytes(b"")
            for variable in trainer.model.trainable_variables:
                variable.assign(tf.fill(variable.shape, math.nan))

    after_steps(damage)
    with pytest.raises(OSError, match="no intact checkpoint of a step before 10 in"):
        train(steps_per_loop=2, checkpoint_interval=2, evaluation_interval=12)
