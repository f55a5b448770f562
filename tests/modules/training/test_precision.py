"""The compute type that a training chooses and records."""

import numpy as np
import pytest
import tensorflow as tf

from contracts import cpu
from modules.data import inputs
from modules.training import precision, strategies
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny
from tests.modules.training import devices

CPU = tf.distribute.OneDeviceStrategy("CPU:0")


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
        chosen = precision.choose("auto", CPU, str(tmp_path))
    assert chosen == precision.Precision("auto", dtype, reason)
    assert f"mixed_precision auto: {dtype} ({reason})" in caplog.text
    assert precision.read(str(tmp_path)) == {
        "setting": "auto",
        "dtype": dtype,
        "reason": reason,
    }


def test_resumed_training_keeps_its_type_on_another_machine(set_flags, tmp_path):
    set_flags()
    first = precision.choose("auto", CPU, str(tmp_path))
    set_flags("amx_bf16")
    assert precision.choose("auto", CPU, str(tmp_path)) == first
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
    chosen = precision.choose("auto", Workers(), str(tmp_path))
    assert chosen.dtype == dtype
    assert precision.read(str(tmp_path))["dtype"] == dtype


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_type_of_the_settings_is_taken_on_any_machine(set_flags, tmp_path, dtype):
    set_flags("amx_bf16")
    assert precision.choose(dtype, CPU, str(tmp_path)).dtype == dtype


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
    assert precision.choose("auto", CPU, str(tmp_path)).dtype == dtype


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
