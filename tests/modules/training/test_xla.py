"""Whether XLA compiles the training step."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from contracts.settings.trainer import TrainerConfig
from contracts.task.definition import TaskConfig
from modules.training import fine_tuning_trainer as trainer_lib
from modules.training import xla
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny
from tests.modules.training import devices

pytestmark = pytest.mark.slow

CPU = tf.distribute.OneDeviceStrategy("CPU:0")
LENGTHS = [8, 16, 24, 32]


def choose(directory, strategy=CPU, **settings):
    _, config, params = tiny.build_experiment(directory, **settings)
    run = str(directory / "run")
    return xla.choose(config.xla, params, strategy, run, LENGTHS)


@pytest.mark.parametrize(("steps", "is_enabled"), [(4_000, False), (4_001, True)])
def test_gpu_compiles_a_long_training_and_the_choice_is_kept(
    monkeypatch, tmp_path, caplog, steps, is_enabled
):
    monkeypatch.setattr(tf.config, "list_physical_devices", devices.listing("GPU", 1))
    caplog.set_level("INFO")
    params = choose(tmp_path, steps_per_epoch=steps, epochs=1)
    assert params.task.xla is is_enabled
    assert params.task.train_data.lengths == (LENGTHS if is_enabled else [])
    assert params.task.validation_data.lengths == []
    reason = f"{steps} steps; auto compiles more than 4000"
    assert f"auto: {'on' if is_enabled else 'off'} ({reason})" in caplog.text
    assert xla.read(str(tmp_path / "run")) == {
        "setting": "auto",
        "is_enabled": is_enabled,
        "reason": reason,
    }
    monkeypatch.setattr(xla, "STEPS_WITHOUT_XLA", 0 if not is_enabled else steps)
    again = choose(tmp_path, steps_per_epoch=steps, epochs=1)
    assert again == params  # as recorded
    monkeypatch.undo()  # on a CPU it continues without XLA
    elsewhere = choose(tmp_path, steps_per_epoch=steps, epochs=1)
    assert not elsewhere.task.xla


def test_xla_is_off_if_a_batch_has_more_windows_than_memory(
    monkeypatch, tmp_path, caplog
):
    monkeypatch.setattr(tf.config, "list_physical_devices", devices.listing("GPU", 1))
    caplog.set_level("INFO")
    _, _, params = tiny.build_experiment(
        tmp_path, batch_size=8, steps_per_epoch=10_000, epochs=1
    )
    for setting, limit, is_used in (
        ("auto", 32, True),  # 8 texts of 4 windows
        ("auto", 31, False),
        ("on", 31, True),
    ):
        windows = params.task.replace(window=8, windows_in_memory=limit)
        run = str(tmp_path / f"{setting}-{limit}")
        windowed = params.replace(task=windows)
        chosen = xla.choose(setting, windowed, CPU, run, LENGTHS)
        assert chosen.task.xla is is_used
    assert caplog.text.count("all 32 windows of a batch at once") == 1
    assert "windows_in_memory is 31" in caplog.text


def test_xla_is_off_on_a_cpu_unless_it_is_set(tmp_path):
    params = choose(tmp_path)
    assert not params.task.xla
    assert params.task.train_data.lengths == []


def test_several_devices_are_refused(tmp_path):
    class Mirrored(tf.distribute.MirroredStrategy):
        num_replicas_in_sync = 2

    with pytest.raises(ValueError, match=r"trainer\.xla is on, .* and not Mirrored"):
        choose(tmp_path, Mirrored(["CPU:0"]), xla="on")


@pytest.mark.parametrize(
    "strategy", ["mirrored", "multi_worker_mirrored", "parameter_server"]
)
def test_strategy_of_several_devices_is_refused_before_the_run(strategy):
    with pytest.raises(ValueError, match=rf"xla: on, .* but strategy is {strategy};"):
        TrainerConfig(xla="on", strategy=strategy)


@pytest.mark.nightly
def test_compiled_training_takes_the_same_steps(tmp_path):
    losses, weights = {}, {}
    for setting in ("off", "on"):
        directory = tmp_path / setting
        directory.mkdir()
        tf_keras.utils.set_random_seed(0)
        with CPU.scope():
            params = choose(directory, xla=setting, learning_rate=1e-3)
            task = FineTuningTask(params.task, TaskConfig())
            trainer = trainer_lib.build_trainer(task, params)
            trainer.initialize()
            logs = trainer.train(tf.constant(6))
        losses[setting] = float(logs["training_loss"])
        weights[setting] = np.concatenate(
            [weight.numpy().ravel() for weight in trainer.model.trainable_variables]
        )
    assert losses["on"] == pytest.approx(losses["off"], rel=1e-5)
    np.testing.assert_allclose(weights["on"], weights["off"], atol=1e-5)
