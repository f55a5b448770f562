"""One process of a training: `python -m tests.modules.training.train_process JSON`.

Logical devices and clusters must be set up before TensorFlow runs its first
operation, so that tests of strategies start processes of their own.
"""

import json
import os
import sys
from pathlib import Path

import modules  # noqa: F401 (sets the environment before TensorFlow is imported)

# isort: split
import tensorflow as tf


def exit_at(trainer_class, step):
    """Ends the process before a step, as a machine that is taken away."""
    original = trainer_class.train

    def train(self, num_steps):
        if self.global_step.numpy() + num_steps > step:
            os._exit(9)
        return original(self, num_steps)

    trainer_class.train = train


def print_rows(task_class):
    """Prints the ids of each batch where it is trained on, as a line `rows ID ...`."""
    original = task_class.train_step

    def train_step(self, inputs, **settings):
        tf.print("rows", inputs[1]["ids"], summarize=-1, output_stream=sys.stdout)
        return original(self, inputs, **settings)

    task_class.train_step = train_step


def main(arguments):
    directory, name = Path(arguments["directory"]), arguments["name"]
    if arguments.get("devices", 1) > 1:
        (cpu,) = tf.config.list_physical_devices("CPU")
        devices = [tf.config.LogicalDeviceConfiguration()] * arguments["devices"]
        tf.config.set_logical_device_configuration(cpu, devices)

    from modules import environment
    from modules.config.task import TaskConfig
    from modules.config.trainer import TrainerConfig
    from modules.training import experiment, run_fn, strategies
    from modules.training import fine_tuning_trainer as trainer_lib
    from modules.training.fine_tuning_task import FineTuningTask

    environment.set_up()
    strategies.serve_coordinator()
    if arguments.get("print_rows"):
        print_rows(FineTuningTask)
    config = TrainerConfig(**arguments["trainer"])
    strategy = strategies.choose_strategy(config)
    task = TaskConfig()
    params = experiment.build_experiment(
        task,
        config,
        encoder=str(directory / "encoder"),
        max_seq_length=32,
        splits={s: [str(directory / f"{s}.gz")] for s in ("train", "eval")},
        strategy=strategy,
        base_model=arguments.get("base_model", ""),
    )
    if "exit_at" in arguments:
        exit_at(trainer_lib.FineTuningTrainer, arguments["exit_at"])
    result = run_fn.train(task, params, strategy, str(directory / name))
    print("strategy", type(strategy).__name__, strategy.num_replicas_in_sync)

    if strategies.is_chief(strategy):
        own_task = FineTuningTask(params.task, task)
        model = run_fn.restore_best(own_task, str(directory / name))
        rows = trainer_lib.predict(own_task, model, params.task.validation_data)
        found = own_task.reduce_aggregated_logs(rows)
        print("result", json.dumps({"best": result.metrics, "one_device": found}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
