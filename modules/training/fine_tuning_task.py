"""The fine-tuning task: model, loss and metrics for the Model Garden's trainer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from official.core import base_task, config_definitions
from official.nlp.modeling import layers, models

from contracts.metrics import VALIDATION_LOSS
from contracts.task.definition import TaskConfig
from modules.data import inputs
from modules.encoder.directory import open_without_vocabulary
from modules.encoder.layers import Dropout, seeds_at_step
from modules.encoder.model import (
    EMBEDDING_NORM,
    POSITION_EMBEDDING,
    TYPE_EMBEDDINGS,
    WORD_EMBEDDINGS,
    build_encoder,
)
from modules.encoder.restoring import restore_encoder
from modules.encoder.window_classifier import WindowClassifier
from modules.evaluation.decision import selection_threshold
from modules.evaluation.prediction_files import Predictions
from modules.training import strategies, warm_start
from modules.training.heads import ScoreScale, build_head

GRADIENT_NORM = "gradient_norm"
EXAMPLES = "examples"
_LABELS = inputs.LABELS  # methods have upstream's argument `inputs`
_CLASSIFIED_POSITIONS = 1  # the first, which is [CLS]
_HALF = 1 << 32  # of an int64

Gradients = Sequence[tuple[tf.Tensor, tf.Variable]]


@dataclasses.dataclass
class FineTuningConfig(config_definitions.TaskConfig):
    """The settings of the model and its data.

    Attributes:
      init_checkpoint: Directory of the pre-trained encoder.
      base_model: Directory of the exported model to start from; empty starts from the
        encoder.
      dropout: Dropout rate after embeddings, attention and feed-forward layers.
      attention_dropout: Dropout rate of the attention's probabilities.
      head_dropout: Dropout rate before the classification head.
      frozen_layers: Number of the lowest layers that are frozen.
      gradient_clip_norm: Largest global norm of the gradients; None clips nothing.
      loss_weights: Weight of each class in the training loss, one for all rows of a
        regression, or two for each of several labels; see `label_statistics.Balance`.
        Empty weighs nothing.
      head_bias: Initial bias of each output of a new head; empty is 0.
      score_scale: The `ScoreScale` of a regression.
      window: Tokens of a window of long texts; 0 reads each text as a whole.
      pool: How the logits of a text follow from those of its windows, `mean` or `max`.
      windows_in_memory: Windows that are in memory at a time; see `WindowClassifier`.
      xla: Whether XLA compiles the training step.
      train_data: The training split.
      validation_data: The evaluation split.
    """

    base_model: str = ""
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float = 0.19
    frozen_layers: int = 0
    gradient_clip_norm: float | None = 1.0
    loss_weights: list[float] = dataclasses.field(default_factory=list)
    head_bias: list[float] = dataclasses.field(default_factory=list)
    score_scale: list[float] = dataclasses.field(
        default_factory=lambda: list(ScoreScale())
    )
    window: int = 0
    pool: str = "mean"
    windows_in_memory: int = 1
    xla: bool = False
    train_data: inputs.ExamplesConfig = dataclasses.field(
        default_factory=inputs.ExamplesConfig
    )
    validation_data: inputs.ExamplesConfig = dataclasses.field(
        default_factory=inputs.ExamplesConfig
    )


class FineTuningTask(base_task.Task):
    """Classification or regression of sentences or pairs with a pre-trained encoder.

    Targets are the `labels`, `weights`, `row_weights` and `ids` of
    `modules.data.inputs`. The loss is the mean over the global batch, whatever the
    number of replicas.

    Attributes:
      definition: The task definition.
      head: The output head.
    """

    def __init__(self, params: FineTuningConfig, definition: TaskConfig) -> None:
        super().__init__(params)
        self.definition = definition
        self._encoder = open_without_vocabulary(params.init_checkpoint)
        self.head = build_head(definition.label_kind, ScoreScale(*params.score_scale))
        self._gradient_norm: tf_keras.metrics.Mean | None = None

    def build_model(self) -> models.BertClassifier:
        """Builds the classifier, with untrained weights of the encoder.

        Returns:
          A model from the encoder's inputs int32[batch, seq_len] to logits
          float32[batch, classes], or a score float32[batch, 1] in the units of the
          labels.
        """
        params = self.task_config
        network = build_encoder(
            self._encoder,
            dropout=params.dropout,
            attention_dropout=params.attention_dropout,
            output_range=_CLASSIFIED_POSITIONS,
        )
        _freeze(network, params.frozen_layers)
        head = layers.ClassificationHead(
            inner_dim=0,
            num_classes=self.definition.outputs,
            initializer=tf_keras.initializers.TruncatedNormal(stddev=0.02),
            name="sentence_prediction",
        )
        # One mask instead of upstream's two, whose seed follows from the step.
        head.dropout = Dropout(params.head_dropout)
        if params.head_bias:
            head.out_proj.bias_initializer = tf_keras.initializers.Constant(
                params.head_bias
            )
        projection = self.head.build_projection(head.initializer)
        if projection is not None:
            head.out_proj = projection
        settings = {"dropout_rate": 0.0, "cls_head": head}
        if params.window:
            return WindowClassifier(
                network,
                self.definition.outputs,
                window=params.window,
                pool=params.pool,
                windows_in_memory=params.windows_in_memory,
                has_fixed_shapes=params.xla,
                **settings,
            )
        return models.BertClassifier(network, self.definition.outputs, **settings)

    def initialize(self, model: models.BertClassifier) -> None:
        """Restores the initial weights; called if there is no checkpoint."""
        if self.task_config.base_model:
            base_model = self.task_config.base_model
            warm_start.restore(model, base_model, self.build_model)
            return
        restore_encoder(model.checkpoint_items["encoder"], self._encoder)

    def build_inputs(
        self,
        params: inputs.ExamplesConfig,
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        """Builds the batches of one input pipeline; see `inputs.build_batches`."""
        return inputs.build_batches(params, input_context)

    def build_losses(
        self,
        labels: dict[str, tf.Tensor],
        model_outputs: tf.Tensor,
        aux_losses: Any = None,
    ) -> tf.Tensor:
        """Returns this replica's share of the mean loss of the global batch, float32[].

        The mean of the shares is the mean over all real rows: cross entropy of classes,
        its mean over several labels, or squared error of standardized scores, each
        times the weight of its row. As with Keras's `class_weight`, the sum is divided
        by the number of rows, not by their weights: a batch of heavy rows makes a large
        step. With several labels, the gradient is the sum over them.
        """
        replica = tf.distribute.get_replica_context()
        rows = tf.reduce_sum(labels[inputs.WEIGHTS])
        if replica.num_replicas_in_sync > 1:
            rows = replica.all_reduce(tf.distribute.ReduceOp.SUM, rows)
        weights = labels[inputs.WEIGHTS]
        if inputs.ROW_WEIGHTS in labels:
            weights *= labels[inputs.ROW_WEIGHTS]
        targets = labels[inputs.LABELS]
        logits = tf.cast(model_outputs, tf.float32)
        if self.task_config.loss_weights:
            by_group = tf.constant(self.task_config.loss_weights, tf.float32)
            losses = self.head.weighted_losses(targets, logits, by_group)
        else:
            losses = self.head.losses(targets, logits)
        share = tf.reduce_sum(_mean_of_row(losses) * weights) / rows
        share = self.head.scale_gradient(share)
        if aux_losses:
            share += tf.add_n(aux_losses) / replica.num_replicas_in_sync
        return share * replica.num_replicas_in_sync

    def build_metrics(self, training: bool = True) -> list[tf_keras.metrics.Metric]:
        """Returns the metrics that are updated step by step.

        These are accuracy (or squared error) and, in training, the global norm of the
        gradients before clipping and the number of examples. An evaluation computes
        the other metrics from all predictions at its end.
        """
        quality = self.head.metric()
        if not training:
            return [quality]
        self._gradient_norm = tf_keras.metrics.Mean(GRADIENT_NORM)
        return [quality, self._gradient_norm, tf_keras.metrics.Sum(EXAMPLES)]

    def process_metrics(
        self,
        metrics: list[tf_keras.metrics.Metric],
        labels: dict[str, tf.Tensor],
        model_outputs: tf.Tensor,
        **_: Any,
    ) -> None:
        """Updates the metrics with a step; rows of weight 0 do not count."""
        weights = labels[inputs.WEIGHTS]
        for metric in metrics:
            if metric.name == EXAMPLES:
                metric.update_state(weights)
            elif metric.name != GRADIENT_NORM:
                targets = labels[inputs.LABELS]
                if targets.shape.rank == 1:
                    targets = targets[:, tf.newaxis]
                metric.update_state(targets, model_outputs, sample_weight=weights)

    def train_step(
        self,
        inputs: tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]],
        model: tf_keras.Model,
        optimizer: tf_keras.optimizers.Optimizer,
        metrics: list[tf_keras.metrics.Metric] | None = None,
    ) -> dict[str, tf.Tensor]:
        """Trains on a batch, with dropout masks that follow from seed and step."""
        seed = self.task_config.train_data.seed or 0
        step = super().train_step
        if self.task_config.xla:
            step = tf.function(step, autograph=False, jit_compile=True)
        with seeds_at_step(seed, optimizer.iterations):
            return step(inputs, model, optimizer, metrics)

    def transform_gradients(self, gradients: Gradients) -> Gradients:
        """Clips to the global norm, after the replicas' gradients were summed.

        Clipping before the sum would make training depend on the number of replicas.
        The sparse gradient of the word embeddings becomes dense: Adam updates every
        row at every step anyway, in one pass if dense and in ten if sparse.
        """
        tensors, variables = zip(*gradients, strict=True)
        norm = tf.linalg.global_norm(tensors)
        if self._gradient_norm is not None:
            self._gradient_norm.update_state(norm)
        limit = self.task_config.gradient_clip_norm
        if limit is not None:
            tensors, _ = tf.clip_by_global_norm(tensors, limit, use_norm=norm)
        dense = [tf.convert_to_tensor(gradient) for gradient in tensors]
        return list(zip(dense, variables, strict=True))

    def validation_step(
        self,
        inputs: tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]],
        model: tf_keras.Model,
        metrics: list[tf_keras.metrics.Metric] | None = None,
    ) -> dict[str, tf.Tensor]:
        """Predicts a batch, and updates the metrics with this replica's rows.

        Returns:
          `ids`, `labels`, `weights`, `positions`, `outputs` and `losses` of the global
          batch, each with the rows of all replicas.
        """
        features, targets = inputs
        logits = tf.cast(self.inference_step(features, model), tf.float32)
        self.process_metrics(metrics or [], targets, logits)
        losses = _mean_of_row(self.head.losses(targets[_LABELS], logits))
        rows = {**targets, "outputs": self.head.activate(logits), "losses": losses}
        return {name: _gather(value) for name, value in rows.items()}

    def aggregate_logs(
        self, state: list[dict[str, np.ndarray]] | None, step_logs: dict[str, Any]
    ) -> list[dict[str, np.ndarray]]:
        """Appends the real rows of a batch."""
        # Every replica holds the rows of all.
        batch = {name: replicas[0].numpy() for name, replicas in step_logs.items()}
        real = batch.pop(inputs.WEIGHTS) > 0
        rows = {name: values[real] for name, values in batch.items()}
        return [*(state or []), rows]

    def reduce_aggregated_logs(
        self,
        aggregated_logs: list[dict[str, np.ndarray]],
        global_step: tf.Variable | None = None,
    ) -> dict[str, float]:
        """Returns the metrics over all rows, and the trainer's loss.

        The metrics are those at the `selection_threshold` of these rows.
        """
        rows = self.collect(aggregated_logs)
        threshold = selection_threshold(self.definition, rows.labels, rows.outputs)
        rows = dataclasses.replace(rows, threshold=threshold)
        values = rows.compute_metrics(self.definition)
        del values["loss"]
        return {VALIDATION_LOSS: float(rows.losses.mean()), **values}

    def collect(self, batches: list[dict[str, np.ndarray]]) -> Predictions:
        """Joins the batches of `aggregate_logs` in the split's order."""

        def join(name: str) -> np.ndarray:
            return np.concatenate([batch[name] for batch in batches])

        order = np.argsort(join(inputs.POSITIONS))
        names = ("ids", "labels", "outputs", "losses")
        ids, labels, outputs, losses = (join(name)[order] for name in names)
        return Predictions(ids, labels, self.head.finish(outputs), losses)


def _mean_of_row(losses: tf.Tensor) -> tf.Tensor:
    return losses if losses.shape.rank == 1 else tf.reduce_mean(losses, axis=1)


def _gather(rows: tf.Tensor) -> tf.Tensor:
    """Concatenates the rows of all replicas, which have the same number.

    It sums tensors that are 0 except for the replica's own rows: `all_gather` fails in
    TensorFlow 2.16 if replicas are processes ("destinations can not be empty"). A TPU
    does not sum int64, so its halves are gathered as int32.
    """
    replica = tf.distribute.get_replica_context()
    replicas = replica.num_replicas_in_sync
    if replicas == 1:
        return rows
    if rows.dtype == tf.int64 and strategies.is_tpu(replica.strategy):
        lower = (rows + _HALF // 2) % _HALF - _HALF // 2  # in the range of int32
        halves = ((rows - lower) // _HALF, lower)
        upper, lower = (_gather(tf.cast(half, tf.int32)) for half in halves)
        return tf.cast(upper, tf.int64) * _HALF + tf.cast(lower, tf.int64)
    is_own = tf.one_hot(replica.replica_id_in_sync_group, replicas, True, False)
    is_own = tf.reshape(is_own, [replicas] + [1] * rows.shape.rank)
    # Not a product: a TPU multiplies matrices in bfloat16.
    rows_by_replica = tf.where(is_own, rows, tf.zeros_like(rows))
    gathered = replica.all_reduce(tf.distribute.ReduceOp.SUM, rows_by_replica)
    return tf.reshape(gathered, tf.concat([[-1], tf.shape(rows)[1:]], axis=0))


def _freeze(network: tf_keras.Model, layers: int) -> None:
    if not layers:
        return
    frozen = {
        WORD_EMBEDDINGS,
        POSITION_EMBEDDING,
        TYPE_EMBEDDINGS,
        EMBEDDING_NORM,
    }
    frozen |= {f"transformer/layer_{index}" for index in range(layers)}
    matching = [layer for layer in network.layers if layer.name in frozen]
    assert len(matching) == len(frozen), f"no layers {frozen} in {network.layers}"
    for layer in matching:
        layer.trainable = False
