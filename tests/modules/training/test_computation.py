"""The compute type and the use of XLA that a training chooses and records."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from contracts import cpu
from contracts.settings.trainer import TrainerConfig
from contracts.task.definition import TaskConfig
from modules.data import inputs
from modules.training import computation, strategies
from modules.training import fine_tuning_trainer as trainer_lib
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny
from tests.modules.training import devices

CPU = tf.distribute.OneDeviceStrategy("CPU:0")
LENGTHS = [8, 16, 24, 32]


@pytest.fixture
def set_flags(monkeypatch):
    """Returns a function that sets the CPU's flags."""

    def set_flags(*flags):
        monkeypatch.setattr(cpu, "read_flags", lambda: frozenset(flags))

    return set_flags


@pytest.mark.parametrize(
    ("flag", "dtype", "reason"),
    [
        ("avx512f", "float32", "the CPU has no instructions for bfloat16"),
        ("avx512_bf16", "bfloat16", "the CPU has avx512_bf16"),
        ("amx_bf16", "bfloat16", "the CPU has amx_bf16"),
    ],
)
def test_cpu_trains_in_bfloat16_if_it_has_instructions_for_it(
    set_flags, tmp_path, caplog, flag, dtype, reason
):
    set_flags("fpu", flag)
    with caplog.at_level("INFO"):
        chosen = computation.choose_precision("auto", CPU, str(tmp_path))
    assert chosen == computation.Precision("auto", dtype, reason)
    assert f"mixed_precision auto: {dtype} ({reason})" in caplog.text
    assert computation.read_precision(str(tmp_path)) == {
        "setting": "auto",
        "dtype": dtype,
        "reason": reason,
    }


def test_resumed_training_keeps_its_type_on_another_machine(set_flags, tmp_path):
    set_flags()
    first = computation.choose_precision("auto", CPU, str(tmp_path))
    set_flags("amx_bf16")
    assert computation.choose_precision("auto", CPU, str(tmp_path)) == first
    assert first.dtype == "float32"


class Workers(tf.distribute.MultiWorkerMirroredStrategy):
    """Stands for several workers, in one process."""

    def __init__(self):
        pass

    extended = CPU.extended


@pytest.mark.parametrize(
    ("votes", "dtype"), [([0, 2, 0], "bfloat16"), ([1, 1, 0], "float32")]
)
def test_workers_whose_cpus_differ_train_in_float32(
    set_flags, monkeypatch, tmp_path, votes, dtype
):
    set_flags("amx_bf16")
    monkeypatch.setattr(strategies, "sum_over_hosts", lambda *_: votes)
    chosen = computation.choose_precision("auto", Workers(), str(tmp_path))
    assert chosen.dtype == dtype
    assert computation.read_precision(str(tmp_path))["dtype"] == dtype


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_type_of_the_settings_is_taken_on_any_machine(set_flags, tmp_path, dtype):
    set_flags("amx_bf16")
    assert computation.choose_precision(dtype, CPU, str(tmp_path)).dtype == dtype


@pytest.mark.parametrize(
    ("capabilities", "dtype"),
    [
        ([(7, 5)], "float32"),
        ([(8, 0)], "bfloat16"),
        ([(9, 0), (8, 6)], "bfloat16"),
        ([(9, 0), (7, 0)], "float32"),
        ([(9, 0), None], "float32"),
    ],
)
def test_gpus_train_in_the_type_that_all_of_them_support(
    monkeypatch, tmp_path, capabilities, dtype
):
    listing = devices.listing("GPU", len(capabilities))
    gpus = dict(zip((gpu.name for gpu in listing("GPU")), capabilities, strict=True))
    monkeypatch.setattr(tf.config, "list_physical_devices", listing)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"compute_capability": gpus[gpu.name]} if gpus[gpu.name] else {},
    )
    assert computation.choose_precision("auto", CPU, str(tmp_path)).dtype == dtype


def test_bert_stored_in_bfloat16_predicts_as_in_float32(tmp_path):
    definition, _, params = tiny.build_experiment(tmp_path)
    task = FineTuningTask(params.task, definition)
    exact = task.build_model()
    task.initialize(exact)
    with computation.stored_in("bfloat16"):
        stored = task.build_model()
    computation.copy_weights(exact, stored)
    kept = {v.name for v in stored.weights if v.dtype == tf.float32}
    assert kept
    assert all("layer_norm" in name for name in kept)
    features, _ = next(iter(inputs.build_batches(params.task.validation_data)))
    expected, logits = (model(features, training=False) for model in (exact, stored))
    difference = np.abs(tf.cast(logits, tf.float32) - expected).max()
    assert 0 < difference < 0.05


def choose(directory, strategy=CPU, **settings):
    _, config, params = tiny.build_experiment(directory, **settings)
    run = str(directory / "run")
    return computation.choose_xla(config.xla, params, strategy, run, LENGTHS)


@pytest.mark.slow
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
    assert computation.read_xla(str(tmp_path / "run")) == {
        "setting": "auto",
        "is_enabled": is_enabled,
        "reason": reason,
    }
    monkeypatch.setattr(
        computation, "STEPS_WITHOUT_XLA", 0 if not is_enabled else steps
    )
    again = choose(tmp_path, steps_per_epoch=steps, epochs=1)
    assert again == params  # as recorded
    monkeypatch.undo()  # on a CPU it continues without XLA
    elsewhere = choose(tmp_path, steps_per_epoch=steps, epochs=1)
    assert not elsewhere.task.xla


@pytest.mark.slow
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
        chosen = computation.choose_xla(setting, windowed, CPU, run, LENGTHS)
        assert chosen.task.xla is is_used
    assert caplog.text.count("all 32 windows of a batch at once") == 1
    assert "windows_in_memory is 31" in caplog.text


@pytest.mark.slow
def test_xla_is_off_on_a_cpu_unless_it_is_set(tmp_path):
    params = choose(tmp_path)
    assert not params.task.xla
    assert params.task.train_data.lengths == []


@pytest.mark.slow
def test_several_devices_are_refused(tmp_path):
    class Mirrored(tf.distribute.MirroredStrategy):
        num_replicas_in_sync = 2

    with pytest.raises(ValueError, match=r"trainer\.xla is on, .* and not Mirrored"):
        choose(tmp_path, Mirrored(["CPU:0"]), xla="on")


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy", ["mirrored", "multi_worker_mirrored", "parameter_server"]
)
def test_strategy_of_several_devices_is_refused_before_the_run(strategy):
    with pytest.raises(ValueError, match=rf"xla: on, .* but strategy is {strategy};"):
        TrainerConfig(xla="on", strategy=strategy)


@pytest.mark.slow
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
