"""The tutorials' training: pairs padded to one length, by Orbit or Keras's `fit`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks import peer
from modules import environment

environment.set_up()

import orbit  # noqa: E402
import tensorflow as tf  # noqa: E402
import tf_keras  # noqa: E402
from official.modeling.optimization import legacy_adamw  # noqa: E402

from benchmarks.same_weights import build_stock  # noqa: E402
from modules.data import inputs  # noqa: E402
from modules.encoder.directory import open_encoder  # noqa: E402
from modules.encoder.restoring import restore_encoder  # noqa: E402


class Trainer(orbit.StandardTrainer):
    """The tutorial's loop."""

    def __init__(
        self,
        model: tf_keras.Model,
        optimizer: tf_keras.optimizers.Optimizer,
        batches: tf.data.Dataset,
    ) -> None:
        super().__init__(batches)
        self._model = model
        self._optimizer = optimizer

    def train_step(self, iterator: Any) -> None:
        """Takes one step."""
        features, labels = next(iterator)
        with tf.GradientTape() as tape:
            logits = self._model(features, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        variables = self._model.trainable_variables
        gradients = tape.gradient(loss, variables)
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Builds the model; see `benchmarks.training` for the settings."""
    encoder = open_encoder(settings["encoder"])
    model = build_stock(encoder, outputs=2)
    restore_encoder(model.checkpoint_items["encoder"], encoder)
    # The tutorial's optimizer, which clips gradients to 1.0 itself.
    optimizer = legacy_adamw.AdamWeightDecay(
        settings["learning_rate"],
        weight_decay_rate=0.01,
        epsilon=1e-6,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
    )
    batches = _batches(settings).cache()
    if settings["loop"] == "orbit":
        trainer = Trainer(model, optimizer, batches.repeat())
        train = lambda _, steps: trainer.train(tf.constant(steps))  # noqa: E731
    else:
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss)
        train = lambda first, steps: model.fit(  # noqa: E731
            batches.repeat().skip(first).take(steps), verbose=0
        )
    steps, warmup = settings["steps"], settings["warmup"]
    train(0, warmup)

    def run_round(number: int) -> peer.Figures:
        started = time.perf_counter()
        train(warmup + number * steps, steps)
        seconds = time.perf_counter() - started
        return {"rows_per_second": steps * settings["batch_size"] / seconds}

    return run_round


def _batches(settings: peer.Settings) -> tf.data.Dataset:
    config = inputs.ExamplesConfig(
        input_path=[settings["records"]],
        global_batch_size=settings["batch_size"],
        lengths=[settings["length"]],
    )
    records = inputs.read_records(config).cache().shuffle(10_000, seed=0)
    batches = records.batch(config.global_batch_size, drop_remainder=True)

    def pad(batch: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        columns = inputs.parse_examples(batch, config)
        return inputs.pad_batch(columns, config.lengths)[0], columns[2]

    return batches.map(pad)


if __name__ == "__main__":
    peer.serve(prepare)
