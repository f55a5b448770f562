"""Processes of a training, forked from one that has imported TensorFlow.

Logical devices and clusters must be set up before TensorFlow runs its first operation,
so tests of strategies need processes of their own.
"""

import contextlib
import json
import os
import socket
import sys
from pathlib import Path

import tensorflow as tf

from contracts.packing import Packing
from contracts.settings.trainer import TrainerConfig
from contracts.task.definition import TaskConfig
from modules import environment
from modules.training import experiment, run_fn, strategies
from modules.training import fine_tuning_trainer as trainer_lib
from modules.training.fine_tuning_task import FineTuningTask
from tests import fork_server
from tests.modules.training.devices import listing, split_cpu
from tests.modules.training.small_model import SmallTask

TASKS = {"small": SmallTask, "bert": FineTuningTask}
SECONDS = 240


class TrainProcess:
    """A process that runs a function, `train` if it is None, and prints to a file."""

    def __init__(self, settings, output, tf_config=None, function=None):
        self._output = output
        arguments = (settings, output, tf_config, function or train)
        context = fork_server.preload(__name__)
        self._process = context.Process(target=_run, args=arguments)
        self._process.start()
        self.terminate, self.kill = self._process.terminate, self._process.kill

    def wait(self, is_successful=True):
        """Waits for the end; returns what was printed."""
        self._process.join(SECONDS)
        text = self._output.read_text()
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
            raise AssertionError(f"no end within {SECONDS} s: {text[-4000:]}")
        assert (self._process.exitcode == 0) == is_successful, text[-4000:]
        return text


def results_of(output):
    """Returns what a process printed of each of its runs."""
    lines = [line.split(" ", 2) for line in output.splitlines()]
    return {line[1]: json.loads(line[2]) for line in lines if line[0] == "result"}


def free_ports(count):
    """Returns ports of this machine that no process uses."""
    sockets = [socket.socket() for _ in range(count)]
    for bound in sockets:
        bound.bind(("127.0.0.1", 0))
    ports = [bound.getsockname()[1] for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports


def parameter_server_tasks(workers):
    """Returns the TF_CONFIG of workers, a parameter server and the chief, the last."""
    chief, server, *addresses = (
        f"127.0.0.1:{port}" for port in free_ports(2 + workers)
    )
    cluster = {"chief": [chief], "worker": addresses, "ps": [server]}
    tasks = [*(("worker", index) for index in range(workers)), ("ps", 0), ("chief", 0)]
    return [
        {"cluster": cluster, "task": {"type": job, "index": index}}
        for job, index in tasks
    ]


def _run(settings, output, tf_config, function):
    with open(output, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.stdout.reconfigure(line_buffering=True)
    os.environ.pop("TF_CONFIG", None)
    if tf_config:
        os.environ["TF_CONFIG"] = json.dumps(tf_config)
    environment.set_up()
    function(**settings)


def train(
    directory,
    runs,
    trainer,
    model="small",
    devices=1,
    gpus=0,
    exit_at=None,
    print_rows=False,
):
    """Trains once for each run, and prints the result.

    Args:
      directory: Has `encoder/`, and files `train*.gz` and `eval*.gz`.
      runs: Strategies by the names of their directories.
      trainer: Settings of `TrainerConfig`.
      model: A key of `TASKS`.
      devices: Logical CPU devices.
      gpus: Number of GPUs that TensorFlow lists; they do not exist.
      exit_at: Step before which the process ends, as if the machine was taken away.
      print_rows: Whether to print the ids of each batch that is trained on.
    """
    split_cpu(devices)
    if gpus:
        tf.config.list_physical_devices = listing("GPU", gpus)
    strategies.serve_coordinator()
    run_fn.FineTuningTask = TASKS[model]
    if print_rows:
        _print_rows(TASKS[model])
    if exit_at:
        _exit_at(exit_at)
    for name, strategy in runs.items():
        config = TrainerConfig(strategy=strategy, **trainer)
        _train(Path(directory), name, config, TASKS[model])


def _train(directory, name, config, task_class):
    definition = TaskConfig()
    strategy = strategies.choose_strategy(config.strategy, config.tpu)
    params = experiment.build_experiment(
        definition,
        config,
        encoder=str(directory / "encoder"),
        packing=Packing(max_seq_length=32),
        splits={s: [str(directory / f"{s}*.gz")] for s in ("train", "eval")},
        strategy=strategy,
    )
    with contextlib.redirect_stdout(sys.stderr):  # Orbit prints its steps
        result = run_fn.train(definition, params, strategy, str(directory / name))
    line = {
        "strategy": f"{type(strategy).__name__} {strategy.num_replicas_in_sync}",
        "loss_weights": params.task.loss_weights,
    }
    task = task_class(params.task, definition)
    if strategies.is_mirrored(strategy):
        with strategy.scope():
            model = run_fn.restore_best(task, str(directory / name))
            data = {"eval": params.task.validation_data}
            predictions = run_fn.predict_splits(task, model, data)["eval"]
        line["predictions"] = [
            predictions.ids.tolist(),
            predictions.outputs.tolist(),
        ]
    if strategies.is_chief(strategy):
        model = run_fn.restore_best(task, str(directory / name))
        whole = params.task.validation_data.replace(
            input_path=[str(directory / "eval*.gz")], host_examples=[]
        )
        batches = trainer_lib.predict(task, model, whole)
        metrics = task.reduce_aggregated_logs(batches)
        line |= {"best": result.metrics, "on_one_device": metrics}
        rows = task.collect(batches)
        line["expected"] = [rows.ids.tolist(), rows.outputs.tolist()]
    print("result", name, json.dumps(line), flush=True)


def _exit_at(step):
    original = trainer_lib.FineTuningTrainer.train

    def train(self, num_steps):
        if self.global_step.numpy() + num_steps > step:
            os._exit(9)
        return original(self, num_steps)

    trainer_lib.FineTuningTrainer.train = train


def _print_rows(task_class):
    original = task_class.train_step

    def train_step(self, inputs, **settings):
        ids, weights = inputs[1]["ids"], inputs[1]["weights"]
        real = tf.boolean_mask(ids, weights > 0)
        tf.print("rows", real, summarize=-1, output_stream=sys.stdout)
        return original(self, inputs, **settings)

    task_class.train_step = train_step
