"""Calls the public methods of the Model Garden's trainer under one strategy.

The documentation of `official.core.base_trainer.Trainer` describes them. A process
calls them all and prints the results: strategies need processes of their own.
"""

import copy
import dataclasses
import json
from pathlib import Path

import tensorflow as tf
import tf_keras
from official.core import train_utils

from contracts.packing import Packing
from contracts.settings.trainer import TrainerConfig
from contracts.task.definition import TaskConfig
from modules.training import experiment, optimization, strategies
from modules.training.fine_tuning_trainer import (
    CoordinatorEvaluator,
    FineTuningTrainer,
)
from tests.modules.training.devices import split_cpu
from tests.modules.training.small_model import SmallTask

STEPS = 4
SETTINGS = {"batch_size": 8, "learning_rate": 3e-3, "dropout": 0.0, "epochs": 1}


def call_all(directory, strategy, devices=1):
    """Calls the methods, and prints a line `result NAME JSON` for each group.

    Args:
      directory: Has `encoder/`, `train.gz` and `eval.gz`.
      strategy: As `trainer.strategy`.
      devices: Logical CPU devices.
    """
    split_cpu(devices)
    strategies.serve_coordinator()
    config = TrainerConfig(strategy=strategy, **SETTINGS)
    calls = Calls(
        Path(directory), config, strategies.choose_strategy(config.strategy, config.tpu)
    )
    for name in (
        *("train", "only_evaluate", "only_train", "own_datasets"),
        *("state", "input_context", "input_options"),
    ):
        print("result", name, json.dumps(getattr(calls, name)()), flush=True)


class CountingTrainer(FineTuningTrainer):
    """Records the step and whether there is an iterator, as each loop begins."""

    def train_loop_begin(self):
        super().train_loop_begin()
        if not hasattr(self, "begins"):
            self.begins = []
        has_iterator = self._train_iter is not None
        self.begins.append([int(self.global_step.numpy()), has_iterator])


class Calls:
    """The groups of calls.

    Args:
      directory: As for `call_all`.
      config: The settings.
      strategy: The strategy.
    """

    def __init__(self, directory, config, strategy):
        self.directory = directory
        self.strategy = strategy
        self.definition = TaskConfig()
        self.params = experiment.build_experiment(
            self.definition,
            config,
            encoder=str(directory / "encoder"),
            packing=Packing(max_seq_length=32),
            splits={s: [str(directory / f"{s}.gz")] for s in ("train", "eval")},
            strategy=strategy,
        )
        # Upstream's evaluation on parameter servers works in this loop alone.
        self.is_asynchronous = strategies.is_asynchronous(strategy)
        self.params.trainer.eval_tf_while_loop = self.is_asynchronous
        self.trainer = self.build(CountingTrainer)
        self.evaluator = self.build_evaluator()

    def build(self, trainer_class=FineTuningTrainer, params=None, **arguments):
        """Builds a trainer in the scope; it has the arguments of the constructor."""
        params = params or self.params
        with self.strategy.scope():
            tf_keras.utils.set_random_seed(0)
            task = SmallTask(params.task, self.definition)
            model = task.build_model()
            optimizer = optimization.build_optimizer(
                params.trainer.optimizer_config,
                transform_gradients=task.transform_gradients,
            )
            optimizer._create_all_weights(model.trainable_variables)
            return trainer_class(params, task, model, optimizer, **arguments)

    def build_evaluator(self):
        """Builds a trainer without training data, which evaluates in a while loop."""
        params = copy.deepcopy(self.params)
        params.task.train_data.input_path = ["/nonexistent/*"]
        params.trainer.eval_tf_while_loop = True
        return self.build(params=params, train=False)

    def expected(self, trainer, steps=-1):
        """Returns the metrics by another way: a second model on one device."""
        metrics = CoordinatorEvaluator(trainer).evaluate(tf.constant(steps))
        return {name: metrics[name] for name in ("validation_loss", "accuracy")}

    def train(self):
        """Trains two loops, and evaluates after them."""
        trainer = self.trainer
        first, second = (trainer.train(tf.constant(STEPS)) for _ in range(2))
        steps = STEPS if self.is_asynchronous else -1
        evaluated = trainer.evaluate(tf.constant(steps))
        (metric,) = trainer.validation_metrics
        return {
            "begins": trainer.begins,
            "examples": [float(logs["examples"]) for logs in (first, second)],
            "losses": [float(logs["training_loss"]) for logs in (first, second)],
            "train_loss": float(trainer.train_loss.result()),
            "evaluated": _floats(evaluated),
            "validation_loss": float(trainer.validation_loss.result()),
            "validation_metrics": {metric.name: float(metric.result())},
            "expected": self.expected(trainer, steps),
        }

    def only_evaluate(self):
        """Evaluates some batches in a while loop, and tries what must fail."""
        trainer = self.evaluator
        logs = trainer.evaluate(tf.constant(2))
        return {
            "evaluated": _floats(logs),
            "expected": self.expected(trainer, 2),
            "evaluate_all": _error(lambda: trainer.evaluate(tf.constant(-1))),
            "train": _error(lambda: trainer.train(tf.constant(STEPS))),
        }

    def state(self):
        """Runs the loop that keeps a state: batches, and their rows in a graph."""
        error = _error(lambda: self.trainer.create_eval_loop_fn(has_state=True))
        if error:
            return {"error": error}
        reduce = self.trainer.eval_reduce
        loop = self.trainer.create_eval_loop_fn(has_state=True)
        iterator = iter(self.trainer.eval_dataset)
        state = loop(iterator, tf.constant(3), state=[], reduce_fn=reduce)
        loop = self.evaluator.create_eval_loop_fn(has_state=True)
        rows = loop(
            iter(self.evaluator.eval_dataset),
            tf.constant(3),
            state=tf.constant(0.0),
            reduce_fn=lambda state, step: state + tf.reduce_sum(step["weights"][0]),
        )
        return {"rows": [len(batch["ids"]) for batch in state], "sum": float(rows)}

    def only_train(self):
        """Trains without evaluation data."""
        params = copy.deepcopy(self.params)
        params.task.validation_data.input_path = ["/nonexistent/*"]
        trainer = self.build(params=params, evaluate=False)
        logs = trainer.train(tf.constant(STEPS))
        error = _error(lambda: trainer.evaluate(tf.constant(2)))
        return {"examples": float(logs["examples"]), "error": error}

    def own_datasets(self):
        """Trains on smaller batches and evaluates on the training split.

        The datasets and the exporter are arguments of the constructor.
        """
        directory = self.directory / "exported"
        data = self.params.task
        smaller = dataclasses.replace(data.train_data, global_batch_size=4)
        params = copy.deepcopy(self.params)
        params.task.validation_data.input_path = data.train_data.input_path
        params.trainer.best_checkpoint_eval_metric = "validation_loss"
        exporter = train_utils.BestCheckpointExporter(
            str(directory), "validation_loss", "lower"
        )
        distribute = self.trainer.distribute_dataset
        build = self.trainer.task.build_inputs
        trainer = self.build(
            train_dataset=distribute(build, smaller),
            validation_dataset=distribute(build, params.task.validation_data),
            params=params,
            checkpoint_exporter=exporter,
        )
        before = _floats(trainer.evaluate(tf.constant(2)))
        expected = self.expected(trainer, 2)
        examples = float(trainer.train(tf.constant(STEPS))["examples"])
        after = _floats(trainer.evaluate(tf.constant(2)))
        return {
            "evaluated": before,
            "expected": expected,
            "examples": examples,
            "is_kept": trainer.checkpoint_exporter is exporter,
            "losses": [logs["validation_loss"] for logs in (before, after)],
            "best": [logs["best_validation_loss"] for logs in (before, after)],
            "files": sorted(path.name for path in directory.iterdir()),
        }

    def input_context(self):
        """Distributes a function that takes its context, and one that does not."""
        distribute = self.trainer.distribute_dataset
        contexts = []

        def with_context(first, input_context=None):
            pipelines = input_context.num_input_pipelines
            contexts.append([pipelines, input_context.num_replicas_in_sync])
            return _numbers(first)

        rows = [
            self.read(distribute(with_context, 5)),
            self.read(distribute(with_context, first=6)),
            self.read(distribute(_numbers, 7)),
        ]
        return {"contexts": contexts, "rows": rows}

    def input_options(self):
        """Distributes with options, a function and a dataset."""
        distribute = self.trainer.distribute_dataset
        options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
        rows = [self.read(distribute(_numbers, 5, input_options=options))]
        # TensorFlow cannot send a dataset of the coordinator's to a worker.
        if not self.is_asynchronous:
            rows.append(self.read(distribute(_numbers(5), input_options=options)))
        return {"rows": rows}

    def read(self, dataset):
        """Returns the numbers of the first batch, of all replicas or of a worker."""
        if self.is_asynchronous:
            first = tf.function(lambda iterator: next(iterator))
            coordinator = self.trainer.coordinator_for_async()
            return coordinator.schedule(first, (iter(dataset),)).fetch().tolist()
        (batch, *_) = dataset
        local = self.strategy.experimental_local_results(batch)
        return [int(number) for numbers in local for number in numbers]


def _numbers(first):
    return tf.data.Dataset.range(first, first + 4).batch(2, drop_remainder=True)


def _floats(logs):
    return {name: float(value) for name, value in logs.items()}


def _error(call):
    try:
        call()
    except (ValueError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return None
