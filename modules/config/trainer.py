"""The settings of the Trainer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt

from modules.config.settings import Settings


class TrainerConfig(Settings):
    """How the model is fine-tuned (Devlin et al. 2018, appendix A.3).

    Attributes:
      epochs: Passes over the training split.
      steps_per_epoch: Steps of one pass; None takes every row once.
      batch_size: Examples a step over all replicas (the global batch size).
      learning_rate: Peak rate, after warmup; decays linearly to 0.
      warmup_fraction: Share of the steps over which the rate rises from 0.
      weight_decay: AdamW's and LAMB's, on everything but LayerNorm and biases.
      gradient_clip_norm: Largest global norm of the gradients.
      optimization: Parts of the Model Garden's `OptimizationConfig` that replace what
        the settings above make of it: `optimizer`, `learning_rate`, `warmup`, `ema`.
      layer_decay: Factor of the rate from each layer to the one below it; AdamW's
        alone. 1 trains all layers alike.
      frozen_layers: Lowest layers that stay as pre-trained, with the embeddings; 0
        trains all.
      dropout: Dropout rate of the encoder and of the classification head.
      shuffle_buffer_size: Rows that training draws from. A split of no more is read
        once, stays in memory and is shuffled as a whole; a larger one is read anew each
        epoch, its files in an order drawn at random.
      seed: Seed of initialization, dropout and shuffling.
      restarts: Trainings from one seed after another, of which the best is kept:
        BERT on small data is unstable (Devlin et al. 2018, section 4.1).
      evaluation_interval: Steps between evaluations; None evaluates every epoch.
      checkpoint_interval: Steps between checkpoints; None saves every epoch. What a
        killed training loses at most.
      patience: Evaluations without a better one after which training stops; None
        trains to the end.
      steps_per_loop: Steps between two lines of progress. A SIGTERM is answered at
        their end.
      loss_upper_bound: A larger mean loss of a loop, or NaN, goes back to the last
        good checkpoint.
      recovery_max_trials: How often it may; the next time training fails.
      strategy: Which `tf.distribute` strategy; `auto` takes what the machine has.
      tpu: Name or address of the TPU; `local` for one of this machine.
      warm_start: What training starts from: the pre-trained `encoder` and a new head,
        or both of the `champion`, the model that was pushed last. Where nothing is
        pushed yet, it is the encoder.
      mixed_precision: Type of the computation; weights stay float32. `auto` takes
        bfloat16 on TPU and float32 elsewhere.
    """

    epochs: PositiveInt = 4
    steps_per_epoch: PositiveInt | None = None
    batch_size: PositiveInt = 32
    learning_rate: float = Field(default=5e-5, gt=0, lt=1)
    warmup_fraction: float = Field(default=0.1, ge=0, lt=1)
    weight_decay: float = Field(default=0.01, ge=0, lt=1)
    gradient_clip_norm: float = Field(default=1.0, gt=0)
    optimization: dict[str, Any] = Field(default_factory=dict)
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    frozen_layers: int = Field(default=0, ge=0)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    shuffle_buffer_size: PositiveInt = 1_000_000
    seed: int = Field(default=0, ge=0)
    restarts: PositiveInt = 1
    evaluation_interval: PositiveInt | None = None
    checkpoint_interval: PositiveInt | None = None
    patience: PositiveInt | None = None
    steps_per_loop: PositiveInt = 10
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


def validate_trainer(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the trainer's settings complete with their defaults.

    Raises:
      ValueError: One is unknown, or has a value that is not allowed.
    """
    return TrainerConfig.model_validate(settings).model_dump()
