"""The Model Garden's trainer around our task, and who evaluates beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orbit
import tensorflow as tf
import tf_keras
from official.core import base_trainer, config_definitions

from modules.data import inputs
from modules.export.traced_model import TracedModel
from modules.training import optimization, strategies
from modules.training.fine_tuning_task import FineTuningTask


class FineTuningTrainer(base_trainer.Trainer):
    """The Model Garden's trainer, which feeds one device directly.

    And has work for every worker of parameter servers.
    """

    def distribute_dataset(
        self, dataset_or_fn: Any, *args: Any, **kwargs: Any
    ) -> tf.data.Dataset | tf.distribute.DistributedDataset:
        """Returns the batches, shared out among the devices if there are several.

        For one, TensorFlow would hand them on through a dataset of its own that tunes
        itself, so that dropping it can take a minute (see `modules/data/inputs.py`).

        Args:
          dataset_or_fn: A dataset, or what returns one.
          *args: What the function is given.
          **kwargs: What it is given by name.
        """
        one = isinstance(self.strategy, tf.distribute.OneDeviceStrategy)
        if one and callable(dataset_or_fn):
            return dataset_or_fn(*args, **kwargs)
        return super().distribute_dataset(dataset_or_fn, *args, **kwargs)

    def create_train_loop_fn(self) -> Callable[[Any, tf.Tensor], None]:
        """Returns the loop over training steps.

        Upstream hands a whole loop to one worker, and the others wait.
        """
        loop = super().create_train_loop_fn()
        if not strategies.is_asynchronous(self.strategy):
            return loop
        workers = strategies.worker_count()

        def share_out(iterator: Any, num_steps: tf.Tensor) -> None:
            steps, rest = divmod(int(num_steps), workers)
            for worker in range(workers):
                share = steps + (worker < rest)
                if share:
                    loop(iterator, tf.constant(share))

        return share_out


class CoordinatorEvaluator(orbit.AbstractEvaluator):
    """Evaluates on the coordinator of workers that train on their own.

    They cannot gather their predictions, which is what the metrics are counted of.
    """

    def __init__(self, trainer: base_trainer.Trainer) -> None:
        """Builds a second model, on this machine.

        Args:
          trainer: Its weights are evaluated.
        """
        self._trainer = trainer
        self._model = trainer.task.build_model()

    def evaluate(self, num_steps: tf.Tensor) -> dict[str, float]:
        """Evaluates the weights as they are now, on the whole evaluation split."""
        weights = [weight.numpy() for weight in self._trainer.model.variables]
        self._model.set_weights(weights)
        task = self._trainer.task
        batches = predict(task, self._model, self._trainer.config.task.validation_data)
        return task.reduce_aggregated_logs(batches)


def predict(
    task: FineTuningTask,
    model: tf_keras.Model | TracedModel,
    data: inputs.ExamplesConfig,
) -> list[dict[str, np.ndarray]]:
    """Predicts a split on one device.

    Args:
      task: What the model was trained for.
      model: The model.
      data: The split.

    Returns:
      A batch each, as `FineTuningTask.aggregate_logs` gathers them.
    """
    step = tf.function(
        lambda batch: task.validation_step(batch, model),
        reduce_retracing=True,
        autograph=False,
    )
    batches: list[dict[str, np.ndarray]] = []
    for batch in task.build_inputs(data):
        outputs = {name: (value,) for name, value in step(batch).items()}
        batches = task.aggregate_logs(batches, outputs)
    return batches


def build_trainer(
    task: FineTuningTask, params: config_definitions.ExperimentConfig
) -> FineTuningTrainer:
    """Builds the Model Garden's trainer; call it in a strategy's scope.

    Args:
      task: What is trained.
      params: The experiment.
    """
    optimizer = optimization.build_optimizer(
        params.trainer.optimizer_config,
        transform_gradients=task.transform_gradients,
        mixed_precision=params.runtime.mixed_precision_dtype or "float32",
    )
    model = task.build_model()
    # Keras makes an optimizer's moments at its first step; a checkpoint from before
    # would lack them, and could not undo what went wrong since.
    optimizer._create_all_weights(model.trainable_variables)
    return FineTuningTrainer(config=params, task=task, model=model, optimizer=optimizer)
