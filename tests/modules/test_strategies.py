"""Distribution: the same training on two logical devices as on one."""

import subprocess
import sys

from tests import tiny

# Logical devices must be made before TensorFlow starts, so in a process of its own.
PROGRAM = """
import sys
import modules
import numpy as np
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, two)
import tf_keras
from modules import encoder as encoder_lib, environment, training
from modules.task import PairClassificationTask
from pipeline.config import TrainerConfig

environment.keep_autograph_out_of_keras()
random = np.random.default_rng(0)
ids = random.integers(5, 20, size=(32, 8), dtype=np.int32)
inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids),
          "input_type_ids": np.zeros_like(ids)}
data = tf.data.Dataset.from_tensor_slices((inputs, ids[:, 1].astype(np.int64) % 2))
curves = []
for strategy in (
    tf.distribute.OneDeviceStrategy("CPU:0"),
    tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
):
    tf_keras.utils.set_random_seed(0)
    with strategy.scope():
        task = PairClassificationTask(
            encoder=encoder_lib.open_encoder(sys.argv[1]), classes=2, dropout=0.0
        )
        trainer = training.build_trainer(
            task, TrainerConfig(learning_rate=1e-3), train_steps=4,
            train_batches=data.batch(8).repeat(), eval_batches=data.batch(8),
        )
        trainer.initialize()
    curve = [float(trainer.train(tf.constant(1))["training_loss"]) for _ in range(4)]
    curves.append(curve + [float(trainer.evaluate(tf.constant(-1))["accuracy"])])
np.testing.assert_allclose(*curves, rtol=1e-4)
print(strategy.num_replicas_in_sync, "replicas agree")
"""


def test_two_replicas_train_as_one_device_does(tmp_path):
    encoder = tiny.write_encoder(tmp_path / "encoder")
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, encoder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert "2 replicas agree" in finished.stdout
