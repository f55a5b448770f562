"""The Model Garden's trainer for the fine-tuning task, and separate evaluators."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import orbit
import tensorflow as tf
import tf_keras
from official.core import base_trainer, config_definitions

from modules.data import inputs
from modules.export.serving_model import TracedModel
from modules.training import computation, optimization, strategies
from modules.training.fine_tuning_task import FineTuningTask

_PREFETCHED = 2  # batches


def _is_fed_directly(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process reads the batches of all its replicas itself."""
    supported = (
        tf.distribute.OneDeviceStrategy,
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
    )
    return isinstance(strategy, supported)


def build_batches(
    strategy: tf.distribute.Strategy,
    build_dataset: Callable[..., tf.data.Dataset],
    *args: Any,
    **kwargs: Any,
) -> tf.data.Dataset:
    """Builds the batches of this process, one for each of its replicas in turn.

    TensorFlow wraps a distributed dataset in one that tunes itself, whose deletion can
    take a minute (`OwnedMultiDeviceIterator`; no option reaches it). Here the replicas
    take their batches in turn from one iterator.

    The number of batches must be a multiple of the local replicas, and the same on all
    hosts: each replica needs one at each step.

    Args:
      strategy: The strategy, which must be supported.
      build_dataset: Returns the dataset. If it has an argument `input_context`, it
        receives the `tf.distribute.InputContext` of this process.
      *args: Its arguments.
      **kwargs: Its keyword arguments.
    """
    if "input_context" in inspect.signature(build_dataset).parameters:
        host, hosts = strategies.find_host(strategy)
        kwargs["input_context"] = tf.distribute.InputContext(
            num_input_pipelines=hosts,
            input_pipeline_id=host,
            num_replicas_in_sync=strategy.num_replicas_in_sync,
        )
    dataset = build_dataset(*args, **kwargs)
    if not isinstance(strategy, tf.distribute.OneDeviceStrategy):
        return dataset
    (name,) = strategy.extended.worker_devices
    device = tf.DeviceSpec.from_string(name)
    if (device.device_type, device.device_index) == ("CPU", 0):
        return dataset
    # Copied to the device while it computes the previous step. The options of a
    # dataset do not apply to its copy.
    prefetch = tf.data.experimental.prefetch_to_device(name, _PREFETCHED)
    return inputs.without_autotuning(dataset.apply(prefetch))


def _take_batches(strategy: tf.distribute.Strategy, iterator: Any) -> Any:
    """Takes the next batch of each replica of this process.

    Returns:
      An argument of `strategy.run`.
    """
    is_single = strategy.num_replicas_in_sync == 1
    if is_single or isinstance(iterator, tf.distribute.DistributedIterator):
        return next(iterator)
    replicas = strategies.count_local_replicas(strategy)
    batches = [next(iterator) for _ in range(replicas)]

    def take_batch() -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return batches[int(tf.get_static_value(replica)) % replicas]

    return strategy.run(take_batch)


class FineTuningTrainer(base_trainer.Trainer):
    """The Model Garden's trainer with four changes.

    It feeds the replicas of this process directly, keeps every worker of parameter
    servers busy, and can end a loop early. Its validation loss is the mean over rows,
    not over batches.

    Attributes:
      stop_requested: Whether a loop on one device ends after its current step.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stop_requested = tf.Variable(False, trainable=False)

    def distribute_dataset(
        self, dataset_or_fn: Any, *args: Any, **kwargs: Any
    ) -> tf.data.Dataset | tf.distribute.DistributedDataset:
        """Returns the dataset, or what TensorFlow distributes it to.

        The task's batches need no distribution: see `build_batches`.

        Args:
          dataset_or_fn: A dataset, or a function that returns one. An argument
            `input_context` of the function receives a `tf.distribute.InputContext`.
          *args: Arguments of the function.
          **kwargs: Keyword arguments of the function, and `input_options`, a
            `tf.distribute.InputOptions`; with it, TensorFlow distributes the dataset.
        """
        is_single = self.strategy.num_replicas_in_sync == 1
        is_task_input = dataset_or_fn == self.task.build_inputs
        if (
            kwargs.get("input_options") is None
            and _is_fed_directly(self.strategy)
            and callable(dataset_or_fn)
            and (is_single or is_task_input)
        ):
            kwargs.pop("input_options", None)
            return build_batches(self.strategy, dataset_or_fn, *args, **kwargs)
        return super().distribute_dataset(dataset_or_fn, *args, **kwargs)

    def next_train_inputs(self, iterator: Any) -> Any:
        """Returns the next batch of each replica of this process."""
        return _take_batches(self.strategy, iterator)

    def next_eval_inputs(self, iterator: Any) -> tuple[Any, dict[str, Any]]:
        """Returns the next batch of each replica of this process, and no logs."""
        return _take_batches(self.strategy, iterator), {}

    def eval_step(self, iterator: Any) -> dict[str, Any]:
        """Predicts a batch, and updates the validation loss and metrics.

        Upstream's loss is a mean over batches, in which a row of a small last batch
        counts more than others.
        """

        def predict_batch(batch: Any) -> dict[str, tf.Tensor]:
            rows = self.task.validation_step(batch, self.model, self.validation_metrics)
            self.validation_loss.update_state(rows["losses"], rows["weights"])
            return rows

        batch, logs = self.next_eval_inputs(iterator)
        rows = self.strategy.run(predict_batch, args=(batch,))
        local = self.strategy.experimental_local_results
        return {**logs, **tf.nest.map_structure(local, rows)}

    def create_train_loop_fn(self) -> Callable[[Any, tf.Tensor], None]:
        """Returns the loop over training steps.

        Upstream schedules a whole loop on one worker, and the others idle. On one
        device, such as a CPU, a loop takes minutes.
        """
        if isinstance(self.strategy, tf.distribute.OneDeviceStrategy):
            return tf.function(self._loop_until_stopped)
        loop = super().create_train_loop_fn()
        if not strategies.is_asynchronous(self.strategy):
            return loop
        workers = strategies.worker_count()

        def schedule(iterator: Any, num_steps: tf.Tensor) -> None:
            steps, rest = divmod(int(num_steps), workers)
            for worker in range(workers):
                share = steps + (worker < rest)
                if share:
                    loop(iterator, tf.constant(share))

        return schedule

    def _loop_until_stopped(self, iterator: Any, num_steps: tf.Tensor) -> None:
        def is_due(step: tf.Tensor) -> tf.Tensor:
            return (step == 0) | ((step < num_steps) & ~self.stop_requested)

        def train(step: tf.Tensor) -> tf.Tensor:
            # As in orbit/utils/loop_fns.py: names would begin with `while/`.
            with tf.name_scope(""):
                self.train_step(iterator)
            return step + 1

        tf.while_loop(is_due, train, [0])


class CoordinatorEvaluator(orbit.AbstractEvaluator):
    """Evaluates on the coordinator of asynchronous workers, with a second model.

    The workers cannot gather their predictions, which the metrics are computed from.
    """

    def __init__(self, trainer: base_trainer.Trainer) -> None:
        self._trainer = trainer
        self._model = trainer.task.build_model()

    def evaluate(self, num_steps: tf.Tensor) -> dict[str, float]:
        """Evaluates the current weights on `num_steps` batches, or all if it is -1."""
        weights = [weight.numpy() for weight in self._trainer.model.variables]
        self._model.set_weights(weights)
        task = self._trainer.task
        data = self._trainer.config.task.validation_data
        batches = predict(task, self._model, data, steps=int(num_steps))
        return task.reduce_aggregated_logs(batches)


class _Predictor(orbit.StandardEvaluator):
    """Predicts a split with the strategy of the scope; see `predict`."""

    def __init__(
        self,
        task: FineTuningTask,
        model: tf_keras.Model | TracedModel,
        data: inputs.ExamplesConfig,
    ) -> None:
        self._task, self._model = task, model
        self._strategy = tf.distribute.get_strategy()
        # Outside the scope of a strategy there is one device.
        batches = (
            build_batches(self._strategy, task.build_inputs, data)
            if _is_fed_directly(self._strategy)
            else task.build_inputs(data)
        )
        super().__init__(batches)

    def eval_step(self, iterator: Any) -> dict[str, Any]:
        """Predicts a batch."""
        rows = self._strategy.run(
            self._task.validation_step,
            args=(_take_batches(self._strategy, iterator), self._model),
        )
        local = self._strategy.experimental_local_results
        return tf.nest.map_structure(local, rows)

    def eval_reduce(self, state: Any = None, step_outputs: Any = None) -> Any:
        """Appends a batch."""
        return self._task.aggregate_logs(state, step_outputs)

    def eval_end(self, *states: Any) -> Any:
        """Returns all batches."""
        return list(*states)


def predict(
    task: FineTuningTask,
    model: tf_keras.Model | TracedModel,
    data: inputs.ExamplesConfig,
    *,
    steps: int = -1,
) -> list[dict[str, np.ndarray]]:
    """Predicts a split on all devices of the current strategy.

    Args:
      task: The task of the model.
      model: The model, built in the same scope.
      data: The split. Batches are shared among the devices.
      steps: Batches to predict; -1 predicts all.

    Returns:
      Its batches, as `FineTuningTask.aggregate_logs` returns them.
    """
    return _Predictor(task, model, data).evaluate(tf.constant(steps))


def build_trainer(
    task: FineTuningTask, params: config_definitions.ExperimentConfig
) -> FineTuningTrainer:
    """Builds the trainer; call it in the scope of the strategy."""
    optimizer = optimization.build_optimizer(
        params.trainer.optimizer_config,
        transform_gradients=task.transform_gradients,
        mixed_precision=params.runtime.mixed_precision_dtype or computation.FLOAT32,
    )
    model = task.build_model()
    # Keras creates an optimizer's moments at its first step; an earlier checkpoint
    # would lack them, and restoring it would leave them as they are.
    optimizer._create_all_weights(model.trainable_variables)
    return FineTuningTrainer(config=params, task=task, model=model, optimizer=optimizer)
