"""The settings of the Trainer."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from contracts import fingerprint
from contracts.errors import SettingError
from contracts.section import Settings

ClassWeights = Literal["auto"] | dict[str, float] | None
# They change what is written, and not what is trained.
_NOT_TRAINED = {
    "max_checkpoints",
    "delete_checkpoints",
    "async_checkpoints",
    "summary_interval",
    "temperature_scaling",
}


class TrainerConfig(Settings):
    """How the model is fine-tuned (Devlin et al. 2018, appendix A.3).

    Attributes:
      epochs: Passes over the training split.
      steps_per_epoch: Steps of one pass; None takes every row once.
      batch_size: Examples per step over all replicas (the global batch size).
      evaluation_batch_size: Examples per step of an evaluation; None is `batch_size`.
      learning_rate: Rate that the decay starts from. It decays linearly to 0.
      warmup_fraction: Share of the steps over which the rate rises from 0.
      decay_start: First step of the decay. With `after_warmup` the decay starts from
        `learning_rate`. With `first_step` it includes the warmup, as in the Model
        Garden's tutorials: after a warmup of 10 % the rate is 0.9 of the other curve's.
      weight_decay: Weight decay of AdamW and LAMB, for all weights but LayerNorm and
        biases.
      gradient_clip_norm: Largest global norm of the gradients; None clips nothing.
      optimization: Sections of the Model Garden's `OptimizationConfig` that override
        the settings above: `optimizer`, `learning_rate`, `warmup`, `ema`. A whole
        `OptimizationConfig` and the `optimizer.json` of a training are accepted.
      layer_decay: Factor of the rate from each layer to the one below it; with AdamW
        only. 1 gives all layers the same rate.
      frozen_layers: Number of the lowest layers that are frozen, with the embeddings. 0
        trains everything.
      class_weights: Weights of classes in the training loss, such as `{urgent: 5}`,
        each above 0; a class that is left out has 1. `auto` is rows / (classes * rows
        of the class). Of several labels, a weight is that of the rows with the label,
        and `auto` is the ratio of the rows without and with it, from 1/20 to 20; the
        odds of a label are divided by it. They are scaled to a mean of 1 over the rows;
        metrics are unweighted. None weighs all classes equally.
      dropout: Dropout rate of the encoder and of the classification head. None takes
        the rates of the encoder's configuration, or 0.1 for those it lacks.
      shuffle_buffer_size: Rows in the shuffle buffer. A split that fits is read once,
        kept in memory and shuffled as a whole; a larger one is read again each epoch,
        its files in random order.
      seed: Seed of initialization, dropout and shuffling; the first of `seeds`.
      seeds: Number of trainings, from consecutive seeds. The best is kept, because BERT
        is unstable on small data (Devlin et al. 2018, section 4.1).
      evaluation_interval: Steps between evaluations; None evaluates every epoch.
      evaluation_steps: Steps of an evaluation, which takes the first rows of the split,
        `evaluation_batch_size` per step; None evaluates all rows.
      evaluate_first: Whether to evaluate before the first step too. This evaluation
        is recorded, but counts neither as the best nor for `patience`.
      checkpoint_interval: Steps between checkpoints, which is the most that a killed
        training loses; None saves every epoch.
      max_checkpoints: Number of checkpoints to keep, the newest ones; at least 2,
        because training restores the previous one if the newest is damaged.
      delete_checkpoints: Whether a finished training deletes its checkpoints. Its best
        weights and its records stay.
      async_checkpoints: Whether training continues while a checkpoint is written, which
        takes memory for a copy of the weights and the optimizer's state. Only on one
        machine and with one seed.
      patience: Consecutive evaluations without improvement after which training stops;
        a lower loss at an equal metric is one. None trains to the end.
      steps_per_loop: Steps between two log lines. Ctrl-C, SIGTERM and SIGHUP end a loop
        after its current step; on several devices they wait for its end.
      summary_interval: Steps between two points of TensorBoard's training curves, a
        multiple of `steps_per_loop`; None writes one for each loop.
      loss_upper_bound: If the mean loss of a loop is above it or NaN, the last intact
        checkpoint is restored. The loss of a regression is the squared error of
        standardized scores, so it does not depend on their units.
      recovery_max_trials: Number of such restores before training fails.
      strategy: The `tf.distribute` strategy; `auto` selects it by the devices.
      tpu: Name or address of the TPU; `local` for this machine's.
      warm_start: Initial weights: those of the pre-trained `encoder` with a new head,
        or those of the `champion`, the model that was pushed last. Before the first
        push, `champion` starts from the encoder.
      mixed_precision: Compute type of training, and of the evaluations that choose the
        best model; weights, recorded predictions and the exported model stay float32.
        `auto` is bfloat16 on a TPU, on GPUs of compute capability 8.0 or more, and on a
        CPU with `amx_bf16` or `avx512_bf16`; else float32. The choice is recorded, and
        a resumed training keeps it.
      temperature_scaling: Whether the logits are divided by a temperature before they
        become probabilities. It is fitted on `eval`, changes no predicted class, and
        lowers probabilities that are too certain. Another value exports the model
        again and trains nothing.
      xla: Whether XLA compiles the training step, for a few padded lengths; on a single
        CPU or GPU. `auto` is `on` for a single GPU and more than 4,000 steps, unless a
        batch of long texts has more than `windows_in_memory`; else `off`. The choice is
        recorded, and a resumed training keeps it. A TPU always compiles.
    """

    epochs: PositiveInt = 4
    steps_per_epoch: PositiveInt | None = None
    batch_size: PositiveInt = 32
    evaluation_batch_size: PositiveInt | None = None
    learning_rate: float = Field(default=5e-5, gt=0, lt=1)
    warmup_fraction: float = Field(default=0.1, ge=0, lt=1)
    decay_start: Literal["after_warmup", "first_step"] = "after_warmup"
    weight_decay: float = Field(default=0.01, ge=0, lt=1)
    gradient_clip_norm: float | None = Field(default=1.0, gt=0)
    optimization: dict[str, Any] = Field(default_factory=dict)
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    frozen_layers: int = Field(default=0, ge=0)
    class_weights: ClassWeights = None
    dropout: float | None = Field(default=None, ge=0, lt=1)
    shuffle_buffer_size: PositiveInt = 1_000_000
    seed: int = Field(default=0, ge=0)
    seeds: PositiveInt = 1
    evaluation_interval: PositiveInt | None = None
    evaluation_steps: PositiveInt | None = None
    evaluate_first: bool = False
    checkpoint_interval: PositiveInt | None = None
    max_checkpoints: int = Field(default=2, ge=2)
    delete_checkpoints: bool = True
    async_checkpoints: bool = False
    patience: PositiveInt | None = None
    steps_per_loop: PositiveInt = 10
    summary_interval: PositiveInt | None = None
    loss_upper_bound: float = Field(default=1e6, gt=0)
    recovery_max_trials: int = Field(default=3, ge=0)
    strategy: Literal[
        "auto",
        "one_device",
        "mirrored",
        "multi_worker_mirrored",
        "parameter_server",
        "tpu",
    ] = "auto"
    tpu: str = "local"
    warm_start: Literal["encoder", "champion"] = "encoder"
    mixed_precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    temperature_scaling: bool = True
    xla: Literal["auto", "on", "off"] = "auto"

    @field_validator("class_weights", mode="before")
    @classmethod
    def _check_class_weights(cls, weights: Any) -> Any:
        # Before pydantic, which reports a value once for each type in the union.
        if weights is None or weights == "auto":
            return weights
        numbers = weights.values() if isinstance(weights, dict) else [weights]
        if not all(isinstance(n, int | float) and 0 < n < math.inf for n in numbers):
            raise SettingError(allowed="auto and numbers above 0 as {CLASS: NUMBER}")
        return weights

    def fingerprint(self) -> str:
        """Returns the hash of the settings that change what is trained."""
        return fingerprint.of_json(self.model_dump(exclude=_NOT_TRAINED))

    @model_validator(mode="after")
    def _check_combination(self) -> TrainerConfig:
        interval = self.summary_interval
        if interval is not None and interval % self.steps_per_loop:
            raise SettingError(
                "summary_interval",
                str(interval),
                f"multiples of steps_per_loop, {self.steps_per_loop}, and None",
            )
        if self.async_checkpoints and self.seeds > 1:
            raise SettingError(
                "async_checkpoints",
                f"requires one seed, but seeds is {self.seeds}: TensorFlow keeps the "
                "copy of each training in memory",
                advice="set async_checkpoints to false or seeds to 1",
            )
        multiple = ("mirrored", "multi_worker_mirrored", "parameter_server")
        if self.xla == "on" and self.strategy in multiple:
            raise SettingError(
                "xla",
                f"on, which requires a single device, but strategy is {self.strategy}",
                advice="set xla to auto or off",
            )
        return self
