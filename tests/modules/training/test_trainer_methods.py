"""Public methods of the Model Garden's trainer, under three strategies.

Strategies need processes of their own, in which each check runs.
"""

import copy
import dataclasses
from pathlib import Path

import pytest
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
from tests import tiny
from tests.modules.training.devices import split_cpu
from tests.modules.training.small_model import SmallTask
from tests.modules.training.train_process import (
    TrainProcess,
    parameter_server_tasks,
)

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

ROWS = 44  # in batches of 8, the last one of 4
STEPS = 4
SETTINGS = {"batch_size": 8, "learning_rate": 3e-3, "dropout": 0.0, "epochs": 1}
STRATEGIES = {"one_device": 1, "mirrored": 2, "parameter_server": 1}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_methods_have_the_results_of_one_device(strategy, tmp_path):
    tiny.write_encoder(tmp_path / "encoder")
    for seed, split in enumerate(("train", "eval")):
        tiny.write_transformed(tmp_path / f"{split}.gz", ROWS, seed)
    tasks = [None]
    if strategy == "parameter_server":
        tasks = parameter_server_tasks(workers=2)
    settings = {"directory": str(tmp_path), "strategy": strategy}
    processes = [
        TrainProcess(settings, tmp_path / f"{index}.txt", task, check_methods)
        for index, task in enumerate(tasks)
    ]
    try:
        assert "all methods were checked" in processes[-1].wait()
    finally:
        for process in processes:
            process.kill()


def check_methods(directory, strategy):
    """Runs all checks, in a process of its own."""
    split_cpu(STRATEGIES[strategy])
    strategies.serve_coordinator()
    config = TrainerConfig(strategy=strategy, **SETTINGS)
    checks = Checks(Path(directory), config)
    checks.check_training()
    checks.check_evaluation_without_training_data()
    checks.check_training_without_evaluation_data()
    checks.check_own_datasets_and_exporter()
    checks.check_evaluation_with_a_state()
    checks.check_input_context()
    checks.check_input_options()
    print("all methods were checked", flush=True)


class CountingTrainer(FineTuningTrainer):
    """Records the step and whether there is an iterator, as each loop begins."""

    def train_loop_begin(self):
        super().train_loop_begin()
        if not hasattr(self, "begins"):
            self.begins = []
        has_iterator = self._train_iter is not None
        self.begins.append((int(self.global_step.numpy()), has_iterator))


class Checks:
    """The groups of checks.

    Args:
      directory: Has `encoder/`, `train.gz` and `eval.gz`.
      config: The settings.
    """

    def __init__(self, directory, config):
        self.directory = directory
        self.strategy = strategies.choose_strategy(config.strategy, config.tpu)
        self.definition = TaskConfig()
        self.params = experiment.build_experiment(
            self.definition,
            config,
            encoder=str(directory / "encoder"),
            packing=Packing(max_seq_length=32),
            splits={s: [str(directory / f"{s}.gz")] for s in ("train", "eval")},
            strategy=self.strategy,
        )
        # Upstream's evaluation on parameter servers works in this loop alone.
        self.is_asynchronous = strategies.is_asynchronous(self.strategy)
        self.params.trainer.eval_tf_while_loop = self.is_asynchronous
        self.trainer = self.build(CountingTrainer)
        params = copy.deepcopy(self.params)
        params.task.train_data.input_path = ["/nonexistent/*"]
        params.trainer.eval_tf_while_loop = True
        self.evaluator = self.build(params=params, train=False)

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

    def evaluate(self, trainer, steps):
        """Evaluates, and compares the result with that of one device."""
        logs = {k: float(v) for k, v in trainer.evaluate(tf.constant(steps)).items()}
        # A second model on one device.
        expected = CoordinatorEvaluator(trainer).evaluate(tf.constant(steps))
        for name in ("validation_loss", "accuracy"):
            assert logs[name] == pytest.approx(expected[name], rel=1e-4)
        return logs

    def check_training(self):
        """Each loop begins before it has an iterator, and counts anew."""
        trainer = self.trainer
        first, second = (trainer.train(tf.constant(STEPS)) for _ in range(2))
        assert trainer.begins == [(0, False), (STEPS, True)]
        # One batch of an epoch has 4 rows.
        counts = {float(logs["examples"]) for logs in (first, second)}
        assert counts <= {STEPS * 8, STEPS * 8 - 4}
        assert float(second["training_loss"]) < float(first["training_loss"])
        assert float(trainer.train_loss.result()) == 0  # for the next loop
        logs = self.evaluate(trainer, STEPS if self.is_asynchronous else -1)
        (metric,) = trainer.validation_metrics
        assert float(trainer.validation_loss.result()) == pytest.approx(
            logs["validation_loss"], rel=1e-4
        )
        assert float(metric.result()) == pytest.approx(logs["accuracy"], rel=1e-4)

    def check_evaluation_without_training_data(self):
        """A while loop evaluates some steps, and refuses all."""
        self.evaluate(self.evaluator, 2)
        with pytest.raises(ValueError, match="Looping until exhausted is not supp"):
            self.evaluator.evaluate(tf.constant(-1))
        with pytest.raises(AttributeError):
            self.evaluator.train(tf.constant(STEPS))

    def check_evaluation_with_a_state(self):
        """The loop keeps a state: batches, and their rows in a graph."""
        if self.is_asynchronous:
            with pytest.raises(ValueError, match="Stateful eval loop is not supported"):
                self.trainer.create_eval_loop_fn(has_state=True)
            return
        loop = self.trainer.create_eval_loop_fn(has_state=True)
        iterator, reduce = iter(self.trainer.eval_dataset), self.trainer.eval_reduce
        state = loop(iterator, tf.constant(3), state=[], reduce_fn=reduce)
        assert [len(batch["ids"]) for batch in state] == [8, 8, 8]
        loop = self.evaluator.create_eval_loop_fn(has_state=True)
        rows = loop(
            iter(self.evaluator.eval_dataset),
            tf.constant(3),
            state=tf.constant(0.0),
            reduce_fn=lambda state, step: state + tf.reduce_sum(step["weights"][0]),
        )
        assert float(rows) == 24

    def check_training_without_evaluation_data(self):
        params = copy.deepcopy(self.params)
        params.task.validation_data.input_path = ["/nonexistent/*"]
        trainer = self.build(params=params, evaluate=False)
        logs = trainer.train(tf.constant(STEPS))
        assert float(logs["examples"]) >= 8 * STEPS - 4
        with pytest.raises(AttributeError):
            trainer.evaluate(tf.constant(2))

    def check_own_datasets_and_exporter(self):
        """Trains on smaller batches, and evaluates on the training split."""
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
        assert trainer.checkpoint_exporter is exporter
        before = self.evaluate(trainer, 2)
        assert float(trainer.train(tf.constant(STEPS))["examples"]) == 4 * STEPS
        after = self.evaluate(trainer, 2)
        assert before["best_validation_loss"] == before["validation_loss"]
        assert after["best_validation_loss"] == min(
            logs["validation_loss"] for logs in (before, after)
        )
        names = [path.name for path in directory.iterdir()]
        assert "info.json" in names
        assert any(name.endswith(".index") for name in names)

    def check_input_context(self):
        """Distributes a function that takes its context, and one that does not."""
        distribute = self.trainer.distribute_dataset
        replicas = self.strategy.num_replicas_in_sync
        contexts = []

        def with_context(first, input_context=None):
            pipelines = input_context.num_input_pipelines
            contexts.append((pipelines, input_context.num_replicas_in_sync))
            return count_from(first)

        for first, dataset in (
            (5, distribute(with_context, 5)),
            (6, distribute(with_context, first=6)),
            (7, distribute(count_from, 7)),
        ):
            assert self.read(dataset) == list(range(first, first + 2 * replicas))
        assert set(contexts) == {(1, replicas)}

    def check_input_options(self):
        """Distributes with options, a function and a dataset."""
        distribute = self.trainer.distribute_dataset
        options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
        rows = self.read(distribute(count_from, 5, input_options=options))
        assert rows == list(range(5, 5 + 2 * self.strategy.num_replicas_in_sync))
        # TensorFlow cannot send a dataset of the coordinator's to a worker.
        if not self.is_asynchronous:
            rows = self.read(distribute(count_from(5), input_options=options))
            assert rows == [5, 6]

    def read(self, dataset):
        """Returns the numbers of the first batch, of all replicas or of a worker."""
        if self.is_asynchronous:
            first = tf.function(lambda iterator: next(iterator))
            coordinator = self.trainer.coordinator_for_async()
            return coordinator.schedule(first, (iter(dataset),)).fetch().tolist()
        (batch, *_) = dataset
        local = self.strategy.experimental_local_results(batch)
        return [int(number) for numbers in local for number in numbers]


def count_from(first):
    return tf.data.Dataset.range(first, first + 4).batch(2, drop_remainder=True)
