"""The compute type that a training chooses and records."""

import numpy as np
import pytest
import tensorflow as tf

from modules.data import inputs
from modules.training import precision
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny
from tests.modules.training import devices

CPU = tf.distribute.OneDeviceStrategy("CPU:0")
FAST = {"float32": 200.0, "bfloat16": 400.0}
SLOW = {"float32": 200.0, "bfloat16": 399.0}


@pytest.fixture
def measured(monkeypatch):
    """Replaces the measurement; returns a function that sets its result."""

    def set_rates(gflops):
        monkeypatch.setattr(precision, "measure_cpu", lambda: gflops)

    return set_rates


@pytest.mark.parametrize(("gflops", "dtype"), [(FAST, "bfloat16"), (SLOW, "float32")])
def test_cpu_trains_in_bfloat16_from_twice_the_rate(
    measured, tmp_path, caplog, gflops, dtype
):
    measured(gflops)
    with caplog.at_level("INFO"):
        chosen = precision.choose("auto", CPU, str(tmp_path))
    assert chosen == precision.Precision("auto", dtype, gflops)
    assert f"auto: {dtype}" in caplog.text
    assert f"bfloat16 {gflops['bfloat16']:g}" in caplog.text
    assert precision.read(str(tmp_path)) == {
        "setting": "auto",
        "dtype": dtype,
        "gflops": gflops,
    }


def test_resumed_training_keeps_its_type_on_another_machine(measured, tmp_path):
    for gflops in (SLOW, FAST):
        measured(gflops)
        chosen = precision.choose("auto", CPU, str(tmp_path))
        assert chosen == precision.Precision("auto", "float32", SLOW)


def test_this_cpu_is_measured_in_both_types():
    gflops = precision.measure_cpu()
    assert gflops.keys() == {"float32", "bfloat16"}
    assert all(rate > 0 for rate in gflops.values())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_type_of_the_settings_is_not_measured(measured, tmp_path, dtype):
    measured(None)
    chosen = precision.choose(dtype, CPU, str(tmp_path))
    assert chosen == precision.Precision(dtype, dtype)


@pytest.mark.parametrize(
    ("capabilities", "has_averages", "dtype"),
    [
        ([(6, 1)], False, "float32"),
        ([(7, 5)], False, "float16"),
        ([(7, 5)], True, "float32"),
        ([(8, 0)], True, "bfloat16"),
        ([(9, 0), (7, 0)], False, "float16"),
        ([(9, 0), None], False, "float32"),
    ],
)
def test_gpus_train_in_the_type_that_all_of_them_support(
    monkeypatch, tmp_path, capabilities, has_averages, dtype
):
    listing = devices.listing("GPU", len(capabilities))
    gpus = dict(zip((gpu.name for gpu in listing("GPU")), capabilities, strict=True))
    monkeypatch.setattr(tf.config, "list_physical_devices", listing)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"compute_capability": gpus[gpu.name]} if gpus[gpu.name] else {},
    )
    directory = str(tmp_path)
    chosen = precision.choose("auto", CPU, directory, has_averages=has_averages)
    assert chosen.dtype == dtype


def test_bert_stored_in_bfloat16_predicts_as_in_float32(tmp_path):
    definition, _, params = tiny.build_experiment(tmp_path)
    task = FineTuningTask(params.task, definition)
    exact = task.build_model()
    task.initialize(exact)
    with precision.stored_in("bfloat16"):
        stored = task.build_model()
    precision.copy_weights(exact, stored)
    kept = {v.name for v in stored.weights if v.dtype == tf.float32}
    assert kept
    assert all("layer_norm" in name for name in kept)
    features, _ = next(iter(inputs.build_batches(params.task.validation_data)))
    expected, logits = (model(features, training=False) for model in (exact, stored))
    difference = np.abs(tf.cast(logits, tf.float32) - expected).max()
    assert 0 < difference < 0.05
