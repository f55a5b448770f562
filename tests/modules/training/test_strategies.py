"""Distribution, each strategy in processes of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from modules.config.task import TaskConfig
from modules.config.trainer import TrainerConfig
from modules.data import inputs
from modules.training import checkpoints, experiment, strategies
from pipeline.config.paths import REPOSITORY
from tests import tiny
from tests.modules.training.summaries import scalars

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
SECONDS = 240


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("strategies")
    tiny.write_encoder(directory / "encoder")
    for seed, split in enumerate(("train", "eval")):
        tiny.write_transformed(directory / f"{split}.gz", 44, seed)
    return directory


@pytest.fixture(scope="module")
def one_device(directory):
    (output,) = run([arguments(directory, "one_device")])
    return output


def arguments(directory, strategy, **settings):
    return {
        "directory": str(directory),
        "name": strategy,
        "trainer": {**TRAINER, "strategy": strategy},
        **settings,
    }


def start(settings, tf_config=None, output=subprocess.DEVNULL):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment.pop("TF_CONFIG", None)
    if tf_config:
        environment["TF_CONFIG"] = json.dumps(tf_config)
    command = [sys.executable, "-m", "tests.modules.training.train_process"]
    return subprocess.Popen(
        [*command, json.dumps(settings)],
        env=environment,
        cwd=REPOSITORY,
        text=True,
        stdout=output,
        stderr=output,
    )


def run(processes, clusters=(None,), is_finished=True):
    """Runs processes to their ends; returns their standard outputs."""
    started = [
        start(settings, cluster, output=subprocess.PIPE)
        for settings, cluster in zip(processes, clusters, strict=True)
    ]
    try:
        outputs = [process.communicate(timeout=SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (_, errors) in zip(started, outputs, strict=True):
        # One of several that are killed may see the other gone first.
        assert (process.returncode == 0) == is_finished, errors[-4000:]
    return [output for output, _ in outputs]


def result_of(output):
    (line,) = (line for line in output.splitlines() if line.startswith("result "))
    return json.loads(line.removeprefix("result "))


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def assert_same_training(directory, name, output, one_device):
    for split, tag in (("train", "training_loss"), ("validation", "validation_loss")):
        expected = scalars(directory / "one_device" / split, tag)
        found = scalars(directory / name / split, tag)
        assert list(found) == list(expected)
        np.testing.assert_allclose(
            list(found.values()), list(expected.values()), rtol=1e-3
        )
    assert result_of(output)["best"] == pytest.approx(
        result_of(one_device)["best"], rel=1e-3
    )


def assert_evaluated_as_on_one_device(output):
    result = result_of(output)
    assert result["best"] == pytest.approx(result["one_device"], rel=1e-5)


def test_one_device_is_what_a_machine_without_accelerators_has(one_device):
    assert "strategy OneDeviceStrategy 1" in one_device
    assert_evaluated_as_on_one_device(one_device)


def test_two_replicas_train_as_one_device_does(directory, one_device):
    settings = arguments(directory, "mirrored", devices=2)
    (output,) = run([settings])
    assert "strategy MirroredStrategy 2" in output
    assert_same_training(directory, "mirrored", output, one_device)
    assert_evaluated_as_on_one_device(output)


def two_workers():
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    return [
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        for index in range(2)
    ]


def test_two_workers_that_are_killed_and_started_again_train_as_one_device_does(
    directory, one_device
):
    settings = arguments(directory, "multi_worker_mirrored")
    settings["trainer"]["checkpoint_interval"] = 2
    run([{**settings, "exit_at": 5}] * 2, two_workers(), is_finished=False)
    assert (directory / "multi_worker_mirrored" / "ckpt-4.index").is_file()
    outputs = run([settings] * 2, two_workers())
    assert all("strategy CollectiveAllReduceStrategy 2" in o for o in outputs)
    chief, other = outputs
    assert "result" not in other
    assert_same_training(directory, "multi_worker_mirrored", chief, one_device)
    assert_evaluated_as_on_one_device(chief)


def test_sigterm_to_one_of_two_workers_saves_what_both_have_reached(directory):
    settings = arguments(directory, "auto", name="terminated")  # the cluster tells
    settings["trainer"] |= {"epochs": 5000, "checkpoint_interval": 30000}
    workers = [start(settings, cluster) for cluster in two_workers()]
    run = directory / "terminated"
    try:
        wait_for(lambda: len(scalars(run / "train", "training_loss")) > 3)
        workers[1].send_signal(signal.SIGTERM)
        wait_for(lambda: len(list(run.glob("ckpt-*.index"))) == 2)
    finally:
        for process in workers:
            process.kill()
    newest = tf.train.latest_checkpoint(str(run))
    assert checkpoints.find_problem(newest) is None
    assert int(newest.rpartition("-")[2]) > 3


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_two_workers_share_the_rows_with_a_parameter_server_and_the_chief_evaluates(
    directory,
):
    chief, server, *workers = (f"127.0.0.1:{port}" for port in free_ports(4))
    cluster = {"chief": [chief], "worker": workers, "ps": [server]}
    settings = arguments(directory, "parameter_server", print_rows=True)
    # `auto` follows from the cluster. In each loop both workers take a step.
    settings["trainer"] |= {"strategy": "auto", "steps_per_loop": 2}

    def config(job, index=0):
        return {"cluster": cluster, "task": {"type": job, "index": index}}

    others = [
        start(settings, config(*task), output=subprocess.PIPE)
        for task in (("worker", 0), ("worker", 1), ("ps", 0))
    ]
    try:
        (output,) = run([settings], [config("chief")])
    finally:
        for process in others:
            process.kill()
    assert "strategy ParameterServerStrategyV2" in output
    assert_evaluated_as_on_one_device(output)
    losses = list(
        scalars(directory / "parameter_server" / "train", "training_loss").values()
    )
    assert len(losses) == STEPS / 2
    assert np.mean(losses[-2:]) < np.mean(losses[:2])
    # Any idle worker takes the next step, so one may take more of them.
    batches = [rows_trained_on(worker.communicate()[0]) for worker in others[:2]]
    assert sum(map(len, batches)) == STEPS
    shares = worker_shares(directory)
    for trained_on, share in zip(batches, shares, strict=True):
        assert trained_on == share[: len(trained_on)]
    epoch = shares[0][:3] + shares[1][:3]
    assert sorted(row for batch in epoch for row in batch) == list(range(44))


def worker_shares(directory):
    """Returns the rows of the batches of each of two workers: every second batch."""
    params = experiment.build_experiment(
        TaskConfig(),
        TrainerConfig(**TRAINER),
        encoder=str(directory / "encoder"),
        max_seq_length=32,
        splits={s: [str(directory / f"{s}.gz")] for s in ("train", "eval")},
        strategy=tf.distribute.OneDeviceStrategy("CPU:0"),
    )
    batches = inputs.build_batches(params.task.train_data).take(2 * STEPS)
    rows = [targets["ids"].numpy().tolist() for _, targets in batches]
    return [rows[worker::2] for worker in range(2)]


def rows_trained_on(output):
    """Returns the ids of each batch that a process printed."""
    return [
        [int(row) for row in line.removeprefix("rows [").rstrip("]").split()]
        for line in output.splitlines()
        if line.startswith("rows ")
    ]


@pytest.mark.parametrize("name", ["auto", "one_device"])
def test_strategy_is_chosen_by_name_or_by_what_there_is(name, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = strategies.choose_strategy(TrainerConfig(strategy=name))
    assert type(strategy).__name__ == "OneDeviceStrategy"
    assert strategies.is_chief(strategy)
    assert strategies.choose_precision("auto", strategy) == "float32"


@pytest.mark.parametrize("name", ["multi_worker_mirrored", "parameter_server"])
def test_cluster_that_nobody_named_is_asked_for(name, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match=f"strategy is {name}, but .*TF_CONFIG"):
        strategies.choose_strategy(TrainerConfig(strategy=name))


def test_batch_that_replicas_cannot_share_is_refused():
    class ThreeReplicas:
        num_replicas_in_sync = 3

    with pytest.raises(ValueError, match=r"batch_size is 32, over all.*has 3"):
        strategies.check_batch(32, ThreeReplicas())


@pytest.mark.parametrize("address", ["local", "grpc://127.0.0.1:9", "my-tpu"])
def test_tpu_that_is_not_there_is_named(address):
    config = TrainerConfig(strategy="tpu", tpu=address)
    with pytest.raises(ValueError, match=f"trainer.tpu '{address}' cannot be used"):
        strategies.choose_strategy(config)
