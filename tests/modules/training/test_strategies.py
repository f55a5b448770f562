"""Distribution and the batches of replicas, in processes of their own."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from contracts.packing import Packing
from contracts.settings.trainer import TrainerConfig
from contracts.task.definition import TaskConfig
from modules.data import inputs
from modules.training import checkpoints, experiment, fine_tuning_trainer, strategies
from tests import tiny
from tests.modules.training.summaries import scalars
from tests.modules.training.train_process import (
    SECONDS,
    TrainProcess,
    free_ports,
    parameter_server_tasks,
    results_of,
    train,
)

pytestmark = pytest.mark.slow

# 44 rows in batches of 8: the last batch of an epoch has 4 rows.
TRAINER = {
    "epochs": 2,
    "batch_size": 8,
    "dropout": 0.0,
    "learning_rate": 3e-3,
    "gradient_clip_norm": 0.1,
    "steps_per_loop": 1,
}
STEPS = 12


def write_inputs(directory):
    tiny.write_encoder(directory / "encoder")
    for seed, split in enumerate(("train", "eval")):
        tiny.write_transformed(directory / f"{split}.gz", 44, seed)
    return directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("strategies"))


@pytest.fixture
def start(directory, tmp_path):
    """Starts processes, which end with the test at the latest."""
    processes = []

    def start(runs, tf_config=None, trainer=None, **settings):
        settings |= {"runs": runs, "trainer": {**TRAINER, **(trainer or {})}}
        process = TrainProcess(
            {"directory": str(directory), **settings},
            tmp_path / f"process-{len(processes)}.txt",
            tf_config,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()


def experiment_of(directory):
    """Returns the experiment of one device."""
    return experiment.build_experiment(
        TaskConfig(),
        TrainerConfig(**TRAINER),
        encoder=str(directory / "encoder"),
        packing=Packing(max_seq_length=32),
        splits={s: [str(directory / f"{s}.gz")] for s in ("train", "eval")},
        strategy=tf.distribute.OneDeviceStrategy("CPU:0"),
    )


def train_and_share_devices(directory, **settings):
    """Trains; prints sums over the host of two replicas, and batches of each device."""
    train(directory, **settings)
    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    sums = strategies.sum_over_hosts(mirrored, [3, 0, 255])
    data = experiment_of(Path(directory)).task.train_data
    ids = []
    for device in ("CPU:0", "CPU:1"):
        strategy = tf.distribute.OneDeviceStrategy(device)
        batches = fine_tuning_trainer.build_batches(
            strategy, inputs.build_batches, data
        )
        features, _ = next(iter(batches))
        ids.append(features["input_word_ids"])
    line = {
        "sums": sums,
        "devices": [value.device[-5:] for value in ids],
        "rows": [value.numpy().tolist() for value in ids],
    }
    print("result shared", json.dumps(line), flush=True)


@pytest.fixture(scope="module")
def one_process(directory, tmp_path_factory):
    """The strategies of one process, with two logical devices."""
    runs = {"one_device": "one_device", "mirrored": "mirrored"}
    process = TrainProcess(
        {"directory": str(directory), "runs": runs, "trainer": TRAINER, "devices": 2},
        tmp_path_factory.mktemp("one_process") / "output.txt",
        function=train_and_share_devices,
    )
    return results_of(process.wait())


def assert_trained_as_on_one_device(directory, name, one_process, result):
    for split, tag in (("train", "training_loss"), ("validation", "validation_loss")):
        expected = scalars(directory / "one_device" / split, tag)
        values = scalars(directory / name / split, tag)
        assert list(values) == list(expected)
        np.testing.assert_allclose(
            list(values.values()), list(expected.values()), rtol=1e-3
        )
    assert result["best"] == pytest.approx(one_process["one_device"]["best"], rel=1e-3)


def assert_evaluated_as_on_one_device(result):
    assert result["best"] == pytest.approx(result["on_one_device"], rel=1e-5)


def assert_predicted_as_on_one_device(expected, predictions):
    (expected_ids, expected_outputs), (ids, outputs) = expected, predictions
    assert ids == expected_ids
    np.testing.assert_allclose(outputs, expected_outputs, atol=1e-6)


def test_two_replicas_predict_what_one_device_does(one_process):
    result = one_process["mirrored"]
    assert_predicted_as_on_one_device(result["expected"], result["predictions"])


def test_one_device_is_evaluated_as_it_is_served(one_process):
    assert one_process["one_device"]["strategy"] == "OneDeviceStrategy 1"
    assert_evaluated_as_on_one_device(one_process["one_device"])


def test_two_replicas_train_as_one_device_does(directory, one_process):
    result = one_process["mirrored"]
    assert result["strategy"] == "MirroredStrategy 2"
    assert_trained_as_on_one_device(directory, "mirrored", one_process, result)
    assert_evaluated_as_on_one_device(result)


@pytest.mark.nightly
def test_two_replicas_of_bert_train_as_one_device_does(start, tmp_path):
    write_inputs(tmp_path)
    runs = {"one_device": "one_device", "mirrored": "mirrored"}
    process = start(runs, directory=str(tmp_path), model="bert", devices=2)
    results = results_of(process.wait())
    result = results["mirrored"]
    assert result["strategy"] == "MirroredStrategy 2"
    assert_trained_as_on_one_device(tmp_path, "mirrored", results, result)
    assert_evaluated_as_on_one_device(result)


def two_workers():
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    return [
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        for index in range(2)
    ]


def test_two_workers_that_are_killed_and_started_again_train_as_one_device_does(
    directory, start, one_process
):
    # `auto` follows from the cluster, although each worker has two GPUs.
    runs = {"workers": "auto"}
    settings = {"trainer": {"checkpoint_interval": 2}, "gpus": 2}
    killed = [start(runs, task, exit_at=5, **settings) for task in two_workers()]
    for worker in killed:
        worker.wait(is_successful=False)
    assert (directory / "workers" / "ckpt-4.index").is_file()
    workers = [start(runs, task, **settings) for task in two_workers()]
    chief, other = (results_of(worker.wait())["workers"] for worker in workers)
    assert chief["strategy"] == other["strategy"] == "CollectiveAllReduceStrategy 2"
    assert "best" not in other
    assert_trained_as_on_one_device(directory, "workers", one_process, chief)
    assert_evaluated_as_on_one_device(chief)
    for worker in (chief, other):
        assert_predicted_as_on_one_device(chief["expected"], worker["predictions"])


@pytest.mark.nightly
def test_two_workers_with_separate_files_train_on_each_row_once_an_epoch(
    start, tmp_path
):
    tiny.write_encoder(tmp_path / "encoder")
    # 20, 9 and 15 rows: the first worker has 35 of them, the other 9.
    for file, (first, rows) in enumerate([(0, 20), (20, 9), (29, 15)]):
        for split in ("train", "eval"):
            path = tmp_path / f"{split}-{file}.gz"
            tiny.write_transformed(path, rows, seed=file, first=first)
    settings = {
        "directory": str(tmp_path),
        "trainer": {"checkpoint_interval": 3, "class_weights": "auto"},
        "print_rows": True,
    }
    epoch = 9  # steps: the first worker's 35 rows, 4 at a time
    runs = {"workers": "auto"}
    killed = [start(runs, task, exit_at=13, **settings) for task in two_workers()]
    before = [rows_trained_on(worker.wait(is_successful=False)) for worker in killed]
    workers = [start(runs, task, **settings) for task in two_workers()]
    outputs = [worker.wait() for worker in workers]
    own_rows = [[*range(20), *range(29, 44)], [*range(20, 29)]]
    for batches, output, rows in zip(before, outputs, own_rows, strict=True):
        resumed = rows_trained_on(output)
        assert len(resumed) < 2 * epoch
        trained_on = batches[: 2 * epoch - len(resumed)] + resumed
        for steps in (trained_on[:epoch], trained_on[epoch:]):
            assert sorted(row for batch in steps for row in batch) == rows
    chief, other = (results_of(output)["workers"] for output in outputs)
    assert chief["loss_weights"] == other["loss_weights"]
    assert len(chief["loss_weights"]) == 2
    assert_evaluated_as_on_one_device(chief)
    for worker in (chief, other):
        assert sorted(worker["predictions"][0]) == [*range(44)]


@pytest.mark.nightly
def test_sigterm_to_one_of_two_workers_saves_a_checkpoint_of_both(directory, start):
    trainer = {"epochs": 5000, "checkpoint_interval": 30000}
    workers = [
        start({"terminated": "multi_worker_mirrored"}, task, trainer=trainer)
        for task in two_workers()
    ]
    run = directory / "terminated"
    wait_for(lambda: len(scalars(run / "train", "training_loss")) > 3)
    workers[1].terminate()
    first = tf.train.latest_checkpoint(str(run))
    # The state file is written last, after the index.
    wait_for(lambda: tf.train.latest_checkpoint(str(run)) != first)
    newest = tf.train.latest_checkpoint(str(run))
    assert checkpoints.find_problem(newest) is None
    assert int(newest.rpartition("-")[2]) > 3


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_two_workers_share_the_rows_with_a_parameter_server_and_the_chief_evaluates(
    directory, start
):
    # `auto` follows from the cluster. In each loop both workers take a step.
    processes = [
        start(
            {"parameter_server": "auto"},
            task,
            trainer={"steps_per_loop": 2},
            print_rows=True,
        )
        for task in parameter_server_tasks(workers=2)
    ]
    result = results_of(processes[-1].wait())["parameter_server"]
    assert result["strategy"].startswith("ParameterServerStrategyV2")
    assert_evaluated_as_on_one_device(result)
    losses = list(
        scalars(directory / "parameter_server" / "train", "training_loss").values()
    )
    assert len(losses) == STEPS / 2
    assert np.mean(losses[-2:]) < np.mean(losses[:2])
    # Any idle worker takes the next step, so one may take more of them.
    for worker in processes[:2]:
        worker.kill()
    batches = [
        rows_trained_on(worker.wait(is_successful=False)) for worker in processes[:2]
    ]
    assert sum(map(len, batches)) == STEPS
    shares = worker_shares(directory)
    for trained_on, share in zip(batches, shares, strict=True):
        assert trained_on == share[: len(trained_on)]
    epoch = shares[0][:3] + shares[1][:3]
    assert sorted(row for batch in epoch for row in batch) == list(range(44))


def worker_shares(directory):
    """Returns the rows of the batches of each of two workers: every second batch."""
    data = experiment_of(directory).task.train_data
    batches = inputs.build_batches(data).take(2 * STEPS)
    rows = [targets["ids"].numpy().tolist() for _, targets in batches]
    return [rows[worker::2] for worker in range(2)]


def rows_trained_on(output):
    """Returns the ids of each batch that a process printed."""
    return [
        [int(row) for row in line.removeprefix("rows [").rstrip("]").split()]
        for line in output.splitlines()
        if line.startswith("rows ")
    ]


def test_values_of_a_host_count_once_for_all_its_replicas(one_process):
    assert one_process["shared"]["sums"] == [3, 0, 255]


def test_batch_is_prefetched_to_the_device_that_trains(one_process):
    shared = one_process["shared"]
    assert shared["devices"] == ["CPU:0", "CPU:1"]
    assert shared["rows"][0] == shared["rows"][1]


@pytest.mark.parametrize("text", ["{oops", "[]", "3"])
def test_mirrored_ignores_what_another_job_left_in_the_environment(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    strategy = strategies.choose_strategy("mirrored", "local")
    assert type(strategy) is tf.distribute.MirroredStrategy
