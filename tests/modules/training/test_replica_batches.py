"""Batches of the replicas of a process; test_strategies.py trains on them."""

import json

import pytest
import tensorflow as tf

from modules.training import replica_batches, strategies
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny
from tests.modules.training import devices
from tests.modules.training.train_process import TrainProcess, results_of

pytestmark = pytest.mark.slow


def add_up(directory):
    """Prints the sums over the one host of two replicas."""
    devices.split_cpu(2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    sums = strategies.sum_over_hosts(strategy, [3, 0, 255])
    print("result sums", json.dumps(sums), flush=True)


def test_values_of_a_host_count_once_for_all_its_replicas(tmp_path):
    process = TrainProcess(
        {"directory": tmp_path}, tmp_path / "output.txt", function=add_up
    )
    assert results_of(process.wait())["sums"] == [3, 0, 255]


def read_on_both_devices(directory):
    """Prints the devices of the first batch, read for the first and the second."""
    devices.split_cpu(2)
    definition, _, params = tiny.build_experiment(directory)
    task = FineTuningTask(params.task, definition)
    ids = []
    for device in ("CPU:0", "CPU:1"):
        strategy = tf.distribute.OneDeviceStrategy(device)
        batches = replica_batches.build(
            strategy, task.build_inputs, params.task.train_data
        )
        features, _ = next(iter(batches))
        ids.append(features["input_word_ids"])
    line = {
        "devices": [value.device[-5:] for value in ids],
        "rows": [value.numpy().tolist() for value in ids],
    }
    print("result prefetch", json.dumps(line), flush=True)


def test_batch_is_prefetched_to_the_device_that_trains(tmp_path):
    process = TrainProcess(
        {"directory": tmp_path}, tmp_path / "output.txt", function=read_on_both_devices
    )
    result = results_of(process.wait())["prefetch"]
    assert result["devices"] == ["CPU:0", "CPU:1"]
    assert result["rows"][0] == result["rows"][1]
