"""The optimizer and its schedule, by the Model Garden's `OptimizationConfig`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from official.modeling import optimization, performance
from official.modeling.optimization import legacy_adamw, optimizer_factory
from official.modeling.optimization.configs import (
    optimization_config,
    optimizer_config,
)

from modules.config.trainer import TrainerConfig

# Gradients are clipped by `trainer.gradient_clip_norm`.
_CLIPPING = {"gradient_clip_norm", "clipnorm", "clipvalue", "global_clipnorm"}

# The optimizers that the Model Garden's trainer supports. Its others are new-style
# Keras optimizers, without gradient transformers, or stubs without code.
OPTIMIZERS = ("adamw", "adam", "lamb", "sgd", "rmsprop", "lars", "adagrad")
LAYERWISE_ADAMW = "layerwise_adamw"
_WITHOUT_WEIGHT_DECAY = ["LayerNorm", "layer_norm", "bias"]
_LAYER = re.compile(r"\blayer_(\d+)/")
_EMBEDDINGS = re.compile(r"(word|position|type)_embeddings?/|^embeddings/")

GradientTransformer = Callable[
    [Sequence[tuple[tf.Tensor, tf.Variable]]], Sequence[tuple[tf.Tensor, tf.Variable]]
]


@dataclasses.dataclass
class LayerwiseAdamWConfig(optimizer_config.AdamWeightDecayConfig):
    """AdamW with a lower rate for each lower layer; see `LayerwiseAdamW`."""

    name: str = "LayerwiseAdamW"
    layer_decay: float = 1.0
    layers: int = 0


@dataclasses.dataclass
class OptimizerConfig(optimization_config.OptimizerConfig):
    """The Model Garden's optimizers and `layerwise_adamw`."""

    layerwise_adamw: LayerwiseAdamWConfig = dataclasses.field(
        default_factory=LayerwiseAdamWConfig
    )


@dataclasses.dataclass
class OptimizationConfig(optimization_config.OptimizationConfig):
    """The Model Garden's configuration with `layerwise_adamw` among the optimizers."""

    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)


# The Model Garden's kinds of each section, and the default.
_SECTIONS: dict[str, tuple[Any, str]] = {
    "optimizer": (OptimizerConfig, "adamw"),
    "learning_rate": (optimization_config.LrConfig, "polynomial"),
    "warmup": (optimization_config.WarmupConfig, "linear"),
}


def layer_rate(name: str, *, layer_decay: float, layers: int) -> float:
    """Returns the factor of a variable's learning rate (Clark et al. 2020, ELECTRA).

    Args:
      name: The variable's.
      layer_decay: Factor from a layer to the one below.
      layers: Layers of the encoder.
    """
    layer = _LAYER.search(name)
    if layer:
        return layer_decay ** (layers - int(layer.group(1)))
    return layer_decay ** (layers + 1) if _EMBEDDINGS.search(name) else 1.0


class LayerwiseAdamW(legacy_adamw.AdamWeightDecay):
    """The Model Garden's AdamW with a learning rate per layer.

    Args:
      learning_rate: Rate or schedule of the head.
      layer_decay: Factor from a layer to the one below.
      layers: Layers of the encoder.
      name: The optimizer's name.
      **settings: Arguments of AdamW.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        layer_decay: float = 1.0,
        layers: int = 0,
        name: str = "LayerwiseAdamW",
        **settings: Any,
    ) -> None:
        super().__init__(learning_rate, name=name, **settings)
        self._layer_decay = layer_decay
        self._layers = layers

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that rebuild the optimizer."""
        added = {"layer_decay": self._layer_decay, "layers": self._layers}
        return {**super().get_config(), **added}

    def _resource_apply_dense(
        self, grad: tf.Tensor, var: tf.Variable, apply_state: Any = None
    ) -> Any:
        state = self._scaled_state(var, apply_state)
        return super()._resource_apply_dense(grad, var, state)

    def _resource_apply_sparse(
        self,
        grad: tf.Tensor,
        var: tf.Variable,
        indices: tf.Tensor,
        apply_state: Any = None,
    ) -> Any:
        state = self._scaled_state(var, apply_state)
        return super()._resource_apply_sparse(grad, var, indices, state)

    def _scaled_state(self, var: tf.Variable, apply_state: Any) -> Any:
        key = (var.device, var.dtype.base_dtype)
        state = apply_state or {}
        coefficients = dict(state.get(key) or self._fallback_apply_state(*key))
        factor = layer_rate(
            var.name, layer_decay=self._layer_decay, layers=self._layers
        )
        for name in ("lr", "lr_t"):  # the keys of Keras's legacy Adam
            coefficients[name] = coefficients[name] * factor
        return {**state, key: coefficients}


if LAYERWISE_ADAMW not in optimizer_factory.LEGACY_OPTIMIZERS_CLS:
    optimization.register_optimizer_cls(LAYERWISE_ADAMW, LayerwiseAdamW)


def build_config(
    config: TrainerConfig, *, train_steps: int, layers: int
) -> OptimizationConfig:
    """Builds the Model Garden's configuration.

    AdamW with linear warmup and linear decay to 0 (Devlin et al. 2018, A.2), overridden
    by `trainer.optimization`. Rates and steps that it leaves open follow from the
    other settings, whatever the optimizer and the schedule.

    Args:
      config: The settings.
      train_steps: Steps of the whole training, where a schedule ends.
      layers: Layers of the encoder.

    Raises:
      ValueError: A type or a key is not one of the Model Garden's, or contradicts
        another setting.
    """
    overrides = config.optimization
    _check_keys(overrides, "", {*_SECTIONS, "ema"})
    default_steps = round(config.warmup_fraction * train_steps)
    warmup = _choose(overrides, "warmup", {"warmup_steps": default_steps})
    warmup_steps = _count_warmup_steps(warmup)
    schedule_options = _schedule_options(config, train_steps, warmup_steps)
    optimizer = _choose(overrides, "optimizer", _optimizer_options(config))
    settings: dict[str, Any] = {
        "optimizer": _with_layer_decay(optimizer, config, layers),
        "learning_rate": _choose(overrides, "learning_rate", schedule_options),
    }
    if warmup_steps:
        settings["warmup"] = warmup
    if overrides.get("ema") is not None:
        allowed = _fields(optimizer_config.EMAConfig) - _CLIPPING
        _check_keys(overrides["ema"], "ema", allowed)
        settings["ema"] = overrides["ema"]
    return OptimizationConfig(settings)


def _count_warmup_steps(warmup: dict[str, Any]) -> int:
    kind = warmup["type"]
    steps = warmup[kind]["warmup_steps"]
    if not isinstance(steps, int) or steps < 0:
        raise ValueError(
            f"trainer.optimization.warmup.{kind}.warmup_steps is {steps}; allowed are "
            "whole numbers from 0; the default follows from trainer.warmup_fraction"
        )
    return steps


def _optimizer_options(config: TrainerConfig) -> dict[str, Any]:
    """Returns the options of all optimizers, by the Model Garden's names."""
    return {
        "epsilon": 1e-6,
        "weight_decay_rate": config.weight_decay,
        "exclude_from_weight_decay": _WITHOUT_WEIGHT_DECAY,
        # The task clips, after the replicas' gradients are summed.
        "gradient_clip_norm": 0.0,
    }


def _schedule_options(
    config: TrainerConfig, train_steps: int, warmup_steps: int
) -> dict[str, Any]:
    """Returns the options of all schedules, by the Model Garden's names."""
    # A schedule of 0 steps divides by 0: every rate would be NaN.
    decay_steps = max(train_steps - warmup_steps, 1)
    return {
        "learning_rate": config.learning_rate,
        "initial_learning_rate": config.learning_rate,
        "pre_offset_learning_rate": config.learning_rate,
        "end_learning_rate": 0.0,
        "decay_steps": decay_steps,
        "total_decay_steps": decay_steps,
        # Without it decay would begin during warmup and miss the peak.
        "offset": warmup_steps,
    }


def _check_keys(settings: Iterable[str], section: str, allowed: set[str]) -> None:
    unknown = set(settings) - allowed
    if unknown:
        raise ValueError(
            f"trainer.optimization{'.' if section else ''}{section}: unknown "
            f"{', '.join(sorted(unknown))}; allowed are {', '.join(sorted(allowed))}"
        )


def _fields(config: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(config)}


def _choose(
    overrides: dict[str, Any], section: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Returns a section as `{"type": KIND, KIND: {...}}`.

    Args:
      overrides: `trainer.optimization`. Its section is missing, the name of a kind, or
        a dictionary.
      section: A key of `_SECTIONS`.
      options: Values by name, for the options that the kind has.
    """
    kinds, default = _SECTIONS[section]
    settings = overrides.get(section)
    settings = {"type": settings} if isinstance(settings, str) else settings or {}
    kind = settings.get("type", default)
    factories = {field.name: field for field in dataclasses.fields(kinds)}
    allowed = OPTIMIZERS if section == "optimizer" else set(factories) - {"type"}
    if kind not in allowed:
        raise ValueError(
            f"trainer.optimization.{section}.type is {kind!r}; allowed are "
            f"{', '.join(sorted(allowed))}"
        )
    _check_keys(settings, section, {"type", kind})
    names = _fields(factories[kind].default_factory)
    chosen = settings.get(kind) or {}
    _check_keys(chosen, f"{section}.{kind}", names - _CLIPPING)
    defaults = {key: value for key, value in options.items() if key in names}
    return {"type": kind, kind: {**defaults, **chosen}}


def _with_layer_decay(
    optimizer: dict[str, Any], config: TrainerConfig, layers: int
) -> dict[str, Any]:
    if config.layer_decay == 1:
        return optimizer
    if optimizer["type"] != "adamw":
        raise ValueError(
            f"trainer.layer_decay is {config.layer_decay}, which works with the "
            f"optimizer adamw alone; it is {optimizer['type']}"
        )
    decay = {"layer_decay": config.layer_decay, "layers": layers}
    return {"type": LAYERWISE_ADAMW, LAYERWISE_ADAMW: {**optimizer["adamw"], **decay}}


def build_optimizer(
    config: optimization_config.OptimizationConfig,
    *,
    transform_gradients: GradientTransformer | None = None,
    mixed_precision: str = "float32",
) -> tf_keras.optimizers.Optimizer:
    """Builds the optimizer of a configuration.

    Args:
      config: The configuration.
      transform_gradients: Applied to the gradients after the replicas' are summed.
      mixed_precision: `float16` scales the loss, so that small gradients survive.

    Raises:
      ValueError: A moving average is combined with `float16`.
    """
    if config.ema is not None and mixed_precision == "float16":
        raise ValueError(
            "trainer.optimization.ema does not work with mixed_precision float16, "
            "whose loss scaling hides the averages from the trainer; use bfloat16"
        )
    factory = optimization.OptimizerFactory(config)
    transformers = [transform_gradients] if transform_gradients else None
    optimizer = factory.build_optimizer(
        factory.build_learning_rate(), gradient_transformers=transformers
    )
    return performance.configure_optimizer(
        optimizer, use_float16=mixed_precision == "float16"
    )


def learning_rates(
    config: optimization_config.OptimizationConfig, train_steps: int
) -> np.ndarray:
    """Returns the learning rate before each step and after the last.

    Args:
      config: The configuration.
      train_steps: Steps of the whole training.

    Returns:
      float64[train_steps + 1].
    """
    rate = optimization.OptimizerFactory(config).build_learning_rate()
    if not callable(rate):
        return np.full(train_steps + 1, float(rate))

    @tf.function(autograph=False)  # without it map_fn runs eagerly, 100 times slower
    def rates(steps: tf.Tensor) -> tf.Tensor:
        return tf.map_fn(
            lambda step: tf.cast(rate(step), tf.float64),
            steps,
            fn_output_signature=tf.float64,
        )

    return rates(tf.range(train_steps + 1, dtype=tf.int64)).numpy()
