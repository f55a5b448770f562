"""Champions that a training can start from."""

import numpy as np
import tensorflow as tf
import tf_keras

from contracts.task.definition import TaskConfig
from modules.training import fine_tuning_trainer as trainer_lib
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny

PAIRS = TaskConfig()
# The rate is so small that training does not change the metrics.
STAND_STILL = {"learning_rate": 1e-12, "epochs": 1, "dropout": 0.0}


def save(directory, task_class):
    """Saves a model with random weights, also of the head; returns path and model."""
    task, _, params = tiny.build_experiment(directory / "tiny", PAIRS)
    tf_keras.utils.set_random_seed(4)
    module = tf.Module()
    module._model = task_class(params.task, task).build_model()
    random = np.random.default_rng(0)
    module._model.set_weights(
        [random.normal(scale=0.3, size=w.shape) for w in module._model.get_weights()]
    )
    path = directory / "pushed" / "Format-Serving"
    tf.saved_model.save(module, str(path))
    return path, module._model


def evaluate(model, directory):
    """Returns the metrics of a model on the evaluation split of tiny pairs."""
    task, _, params = tiny.build_experiment(directory, PAIRS)
    fine_tuning = FineTuningTask(params.task, task)
    rows = trainer_lib.predict(fine_tuning, model, params.task.validation_data)
    return fine_tuning.reduce_aggregated_logs(rows)
