"""Fixtures of small trainings, which can be interrupted."""

import logging

import pytest
import tensorflow as tf
import tf_keras

from modules.training import fine_tuning_trainer, run_fn
from tests import tiny
from tests.modules.training import run_arguments
from tests.modules.training.small_model import SmallTask


@pytest.fixture(autouse=True)
def fresh_keras():
    """Deletes the models of a test, which Keras would keep."""
    yield
    tf_keras.backend.clear_session()


@pytest.fixture(scope="module")
def small_task():
    """Trains a bag of words; `tests/e2e` trains BERT."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_fn, "FineTuningTask", SmallTask)
        yield


@pytest.fixture(scope="session")
def transformed(tmp_path_factory):
    """A Transform's output of the tiny pairs, and the encoder."""
    root = tmp_path_factory.mktemp("transformed")
    pairs = tiny.pairs(44)
    texts, labels = [pair[1:] for pair in pairs], [2 * pair[0] for pair in pairs]
    splits = ("train", "eval", "test", "eval_mismatched")
    run_arguments.transform(root, "pairs", texts, labels, splits)
    return root


@pytest.fixture
def lines(caplog):
    """Returns the messages that the modules log."""
    caplog.set_level(logging.INFO, logger="modules")
    return lambda: [
        r.getMessage() for r in caplog.records if r.name.startswith("modules")
    ]


def train_in(directory, name="run", **settings):
    """Trains 12 steps, 2 epochs of 48 rows in batches of 8, in a directory."""
    task, _, params = tiny.build_experiment(
        directory, **{"learning_rate": 3e-3, "epochs": 2, **settings}
    )
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    return run_fn.train(task, params, strategy, str(directory / name))


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Trains a small model; the settings are those of the trainer."""
    monkeypatch.setattr(run_fn, "FineTuningTask", SmallTask)
    return lambda name="run", **settings: train_in(tmp_path, name, **settings)


@pytest.fixture
def after_steps(monkeypatch):
    """Calls a function with the trainer after each loop of training steps."""

    def after_steps(function):
        original = fine_tuning_trainer.FineTuningTrainer.train

        def train(self, num_steps):
            output = original(self, num_steps)
            function(self)
            return output

        monkeypatch.setattr(fine_tuning_trainer.FineTuningTrainer, "train", train)

    return after_steps
