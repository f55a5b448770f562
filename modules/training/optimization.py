"""The optimizer: the Model Garden's `OptimizationConfig`, filled in for a training."""

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

# One owner for clipping: `trainer.gradient_clip_norm`.
_CLIPPING = {"gradient_clip_norm", "clipnorm", "clipvalue", "global_clipnorm"}

# The Model Garden's trainer works with these; its other names are new-style Keras
# optimizers, which take no gradient transformers, or stubs without code.
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
    """AdamW whose rate falls from each layer to the one below it.

    Attributes:
      layer_decay: Factor from a layer to the one below; the head has the full rate.
      layers: Layers of the encoder.
    """

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
    """The Model Garden's configuration with our optimizer among its own."""

    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)


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
    """The Model Garden's AdamW with a rate for every layer."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        layer_decay: float = 1.0,
        layers: int = 0,
        name: str = "LayerwiseAdamW",
        **settings: Any,
    ) -> None:
        """Keeps how the rate falls.

        Args:
          learning_rate: Rate or schedule of the head.
          layer_decay: Factor from a layer to the one below.
          layers: Layers of the encoder.
          name: The optimizer's.
          **settings: AdamW's.
        """
        super().__init__(learning_rate, name=name, **settings)
        self._layer_decay = layer_decay
        self._layers = layers

    def get_config(self) -> dict[str, Any]:
        """Returns what the optimizer is rebuilt from."""
        own = {"layer_decay": self._layer_decay, "layers": self._layers}
        return {**super().get_config(), **own}

    def _resource_apply_dense(
        self, grad: tf.Tensor, var: tf.Variable, apply_state: Any = None
    ) -> Any:
        return super()._resource_apply_dense(grad, var, self._of(var, apply_state))

    def _resource_apply_sparse(
        self,
        grad: tf.Tensor,
        var: tf.Variable,
        indices: tf.Tensor,
        apply_state: Any = None,
    ) -> Any:
        state = self._of(var, apply_state)
        return super()._resource_apply_sparse(grad, var, indices, state)

    def _of(self, var: tf.Variable, apply_state: Any) -> Any:
        # Adam reads the variable's rate from here, under these two names.
        key = (var.device, var.dtype.base_dtype)
        coefficients = dict((apply_state or {}).get(key) or {})
        if not coefficients:
            coefficients = dict(self._fallback_apply_state(*key))
        factor = layer_rate(
            var.name, layer_decay=self._layer_decay, layers=self._layers
        )
        for name in ("lr", "lr_t"):
            coefficients[name] = coefficients[name] * factor
        return {**(apply_state or {}), key: coefficients}


if LAYERWISE_ADAMW not in optimizer_factory.LEGACY_OPTIMIZERS_CLS:
    optimization.register_optimizer_cls(LAYERWISE_ADAMW, LayerwiseAdamW)


def build_config(
    config: TrainerConfig, *, train_steps: int, layers: int
) -> OptimizationConfig:
    """Fills the Model Garden's configuration in.

    AdamW with linear warmup and linear decay to 0 (Devlin et al. 2018, A.2), and over
    it what `trainer.optimization` sets. Rates and steps that it leaves open follow
    from the other settings, whatever the optimizer and the schedule.

    Args:
      config: The settings.
      train_steps: Steps of the whole training, where a schedule ends.
      layers: Layers of the encoder.

    Raises:
      ValueError: A type or a key is not one of the Model Garden's, or does not go
        with another setting.
    """
    given = dict(config.optimization)
    _check_keys(given, "", {"optimizer", "learning_rate", "warmup", "ema"})
    warmup = _choose(
        given.get("warmup"),
        "warmup",
        optimization_config.WarmupConfig,
        default="linear",
        options={"warmup_steps": round(config.warmup_fraction * train_steps)},
    )
    warmup_steps = _count_warmup_steps(warmup)
    settings: dict[str, Any] = {
        "optimizer": _choose(
            given.get("optimizer"),
            "optimizer",
            OptimizerConfig,
            default="adamw",
            options={
                "epsilon": 1e-6,
                "weight_decay_rate": config.weight_decay,
                "exclude_from_weight_decay": _WITHOUT_WEIGHT_DECAY,
                # Ours clips after the replicas' gradients are summed; see the task.
                "gradient_clip_norm": 0.0,
            },
        ),
        "learning_rate": _choose(
            given.get("learning_rate"),
            "learning_rate",
            optimization_config.LrConfig,
            default="polynomial",
            options=_schedule_options(config, train_steps, warmup_steps),
        ),
    }
    if warmup_steps:
        settings["warmup"] = warmup
    if given.get("ema") is not None:
        averages = dataclasses.fields(optimizer_config.EMAConfig)
        _check_keys(given["ema"], "ema", {field.name for field in averages} - _CLIPPING)
        settings["ema"] = given["ema"]
    _apply_layer_decay(settings, config, layers)
    return OptimizationConfig(settings)


def _count_warmup_steps(warmup: dict[str, Any]) -> int:
    kind = warmup["type"]
    steps = warmup[kind]["warmup_steps"]
    if not isinstance(steps, int) or steps < 0:
        raise ValueError(
            f"trainer.optimization.warmup.{kind}.warmup_steps is {steps}; allowed are "
            "whole numbers from 0; without it, trainer.warmup_fraction counts"
        )
    return steps


def _schedule_options(
    config: TrainerConfig, train_steps: int, warmup_steps: int
) -> dict[str, Any]:
    """Returns what any schedule may ask for, by the Model Garden's names."""
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


def _check_keys(given: Iterable[str], group: str, allowed: set[str]) -> None:
    unknown = set(given) - allowed
    if unknown:
        raise ValueError(
            f"trainer.optimization{'.' if group else ''}{group}: unknown "
            f"{', '.join(sorted(unknown))}; allowed are {', '.join(sorted(allowed))}"
        )


def _choose(
    given: Any, group: str, kind: type, *, default: str, options: dict[str, Any]
) -> dict[str, Any]:
    given = {"type": given} if isinstance(given, str) else dict(given or {})
    name = given.pop("type", default)
    kinds = {field.name: field for field in dataclasses.fields(kind)}
    allowed = OPTIMIZERS if group == "optimizer" else tuple(set(kinds) - {"type"})
    if name not in allowed:
        raise ValueError(
            f"trainer.optimization.{group}.type is {name!r}; allowed are "
            f"{', '.join(sorted(allowed))}"
        )
    own = dict(given.pop(name, None) or {})
    chosen: Any = kinds[name].default_factory
    fields = {field.name for field in dataclasses.fields(chosen)}
    _check_keys(given, f"{group}", {"type", name})
    _check_keys(own, f"{group}.{name}", fields - _CLIPPING)
    known = {key: value for key, value in options.items() if key in fields}
    return {"type": name, name: {**known, **own}}


def _apply_layer_decay(
    settings: dict[str, Any], config: TrainerConfig, layers: int
) -> None:
    if config.layer_decay == 1:
        return
    chosen = settings["optimizer"]
    if chosen["type"] != "adamw":
        raise ValueError(
            f"trainer.layer_decay is {config.layer_decay}, which works with the "
            f"optimizer adamw alone; it is {chosen['type']}"
        )
    settings["optimizer"] = {
        "type": LAYERWISE_ADAMW,
        LAYERWISE_ADAMW: {
            **chosen["adamw"],
            "layer_decay": config.layer_decay,
            "layers": layers,
        },
    }


def build_optimizer(
    config: optimization_config.OptimizationConfig,
    *,
    transform_gradients: GradientTransformer | None = None,
    mixed_precision: str = "float32",
) -> tf_keras.optimizers.Optimizer:
    """Builds the optimizer of a configuration.

    Args:
      config: What `build_config` returned, or what was read back from its JSON.
      transform_gradients: Applied to the gradients after the replicas' are summed.
      mixed_precision: `float16` scales the loss, so that small gradients survive.

    Raises:
      ValueError: A moving average is asked for with `float16`.
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
      config: What `build_config` returned.
      train_steps: Steps of the whole training.

    Returns:
      float64[train_steps + 1].
    """
    rate = optimization.OptimizerFactory(config).build_learning_rate()
    if not callable(rate):
        return np.full(train_steps + 1, float(rate))
    steps = tf.range(train_steps + 1, dtype=tf.int64)
    return tf.map_fn(
        lambda step: tf.cast(rate(step), tf.float64),
        steps,
        fn_output_signature="float64",
    ).numpy()
