"""Learning rates of a configuration by step."""

import numpy as np
import tensorflow as tf
from official.modeling import optimization


def learning_rates(config, train_steps):
    """Returns the rate before each step and after the last."""
    rate = optimization.OptimizerFactory(config).build_learning_rate()
    if not callable(rate):
        return np.full(train_steps + 1, float(rate))

    @tf.function(autograph=False)  # without it map_fn runs eagerly, 100 times slower
    def rates(steps):
        return tf.map_fn(
            lambda step: tf.cast(rate(step), tf.float64),
            steps,
            fn_output_signature=tf.float64,
        )

    return rates(tf.range(train_steps + 1, dtype=tf.int64)).numpy()
