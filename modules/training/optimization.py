"""The optimizer and its schedule, by the Model Garden's `OptimizationConfig`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras
from official.modeling import optimization, performance
from official.modeling.hyperparams import base_config
from official.modeling.optimization import legacy_adamw, optimizer_factory
from official.modeling.optimization.configs import (
    optimization_config,
    optimizer_config,
)
from official.nlp import optimization as nlp_optimization

from contracts.errors import SettingError
from contracts.settings.trainer import TrainerConfig
from modules.training import computation

LAYERWISE_ADAMW = "layerwise_adamw"
_LAYER = re.compile(r"\blayer_(\d+)/")
_EMBEDDINGS = re.compile(r"(word|position|type)_embeddings?/|^embeddings/")
# The task clips by `trainer.gradient_clip_norm`, after the replicas' gradients were
# summed, so an optimizer must not. The first two clip to a global norm as well.
_GLOBAL_CLIPPING = ("gradient_clip_norm", "global_clipnorm")
_CLIPPING = (*_GLOBAL_CLIPPING, "clipnorm", "clipvalue")

# The optimizers that the Model Garden's trainer supports. Its others are new-style
# Keras optimizers, without gradient transformers, or stubs without code.
OPTIMIZERS = ("adamw", "adam", "lamb", "sgd", "rmsprop", "lars", "adagrad")
_EXCLUSIONS = "exclude_from_weight_decay"  # None excludes nothing
_WITHOUT_WEIGHT_DECAY = ["LayerNorm", "layer_norm", "bias"]

GradientTransformer = Callable[
    [Sequence[tuple[tf.Tensor, tf.Variable]]], Sequence[tuple[tf.Tensor, tf.Variable]]
]


@dataclasses.dataclass
class LayerwiseAdamWConfig(optimizer_config.AdamWeightDecayConfig):
    """AdamW with a lower rate for each lower layer; see `LayerwiseAdamW`."""

    name: str = "LayerwiseAdamW"
    layer_decay: float = 1.0
    layers: int = 0


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
    """The Model Garden's AdamW with a learning rate per layer."""

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


@dataclasses.dataclass
class OptimizerConfig(optimization_config.OptimizerConfig):
    """The Model Garden's optimizers and `layerwise_adamw`."""

    layerwise_adamw: LayerwiseAdamWConfig = dataclasses.field(
        default_factory=LayerwiseAdamWConfig
    )


@dataclasses.dataclass
class WarmupToPeakConfig(base_config.Config):
    """Warmup of `official.nlp.optimization.create_optimizer`; see `warm_up_to_peak`."""

    name: str = "WarmUp"
    warmup_steps: int = 0
    peak_learning_rate: float = 0.0
    power: float = 1.0


@dataclasses.dataclass
class WarmupConfig(optimization_config.WarmupConfig):
    """The Model Garden's kinds of warmup and `to_peak`."""

    to_peak: WarmupToPeakConfig = dataclasses.field(default_factory=WarmupToPeakConfig)


@dataclasses.dataclass
class OptimizationConfig(optimization_config.OptimizationConfig):
    """The Model Garden's configuration with `layerwise_adamw` and `to_peak`."""

    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    warmup: WarmupConfig = dataclasses.field(default_factory=WarmupConfig)


# The kinds of each section, and the default.
_SECTIONS: dict[str, tuple[Any, str]] = {
    "optimizer": (OptimizerConfig, "adamw"),
    "learning_rate": (optimization_config.LrConfig, "polynomial"),
    "warmup": (WarmupConfig, "linear"),
}


def warm_up_to_peak(
    schedule: tf_keras.optimizers.schedules.LearningRateSchedule | float,
    *,
    warmup_steps: int,
    peak_learning_rate: float,
    power: float,
    name: str,
) -> tf_keras.optimizers.schedules.LearningRateSchedule:
    """Warms up to the peak rate, whatever the schedule has decayed to by then.

    The other kinds warm up to the schedule's rate after the warmup.

    Args:
      schedule: Schedule after the warmup, or a constant rate.
      warmup_steps: Steps of the warmup.
      peak_learning_rate: Rate at its end.
      power: Exponent of the rise; 1 is linear.
      name: Name of the schedule.
    """
    return nlp_optimization.WarmUp(
        initial_learning_rate=peak_learning_rate,
        decay_schedule_fn=schedule if callable(schedule) else lambda _: schedule,
        warmup_steps=warmup_steps,
        power=power,
        name=name,
    )


# Upstream registers optimizers by a function, and kinds of warmup only in this table.
optimizer_factory.WARMUP_CLS["to_peak"] = warm_up_to_peak


def build_config(
    config: TrainerConfig, *, train_steps: int, layers: int
) -> OptimizationConfig:
    """Builds the Model Garden's configuration.

    The default is AdamW with linear warmup and linear decay to 0 (Devlin et al. 2018,
    A.2); `trainer.optimization` overrides it. Rates and steps that it leaves open
    follow from the other settings, with any optimizer and schedule.

    Args:
      config: The settings.
      train_steps: Steps of the whole training, where a schedule ends.
      layers: Layers of the encoder.

    Raises:
      ValueError: The Model Garden does not know a type or a key, or a setting
        contradicts another.
    """
    overrides = config.optimization
    _check_keys(overrides, "", {*_SECTIONS, "ema"})
    default_steps = round(config.warmup_fraction * train_steps)
    warmup = _choose(overrides, "warmup", {"warmup_steps": default_steps})
    warmup_steps = _count_warmup_steps(warmup)
    # Without an offset the decay is counted from the first step, during warmup too.
    offset = warmup_steps if config.decay_start == "after_warmup" else 0
    # A schedule of 0 steps divides by 0: every rate would be NaN.
    decay_steps = max(train_steps - offset, 1)
    # The options of all schedules, and then of all optimizers, by upstream's names.
    schedule = _choose(
        overrides,
        "learning_rate",
        {
            "learning_rate": config.learning_rate,
            "initial_learning_rate": config.learning_rate,
            "pre_offset_learning_rate": config.learning_rate,
            "end_learning_rate": 0.0,
            "decay_steps": decay_steps,
            "total_decay_steps": decay_steps,
            "offset": offset,
        },
    )
    if warmup["type"] == "to_peak":
        warmup["to_peak"].setdefault("peak_learning_rate", _initial_rate(schedule))
    optimizer = _choose(
        overrides,
        "optimizer",
        {
            "epsilon": 1e-6,
            "weight_decay_rate": config.weight_decay,
            _EXCLUSIONS: _WITHOUT_WEIGHT_DECAY,
            "gradient_clip_norm": 0.0,
        },
    )
    settings: dict[str, Any] = {
        "optimizer": _without_clipping(
            _with_layer_decay(optimizer, config, layers), config
        ),
        "learning_rate": schedule,
    }
    if warmup_steps:
        settings["warmup"] = warmup
    if overrides.get("ema") is not None:
        _check_keys(overrides["ema"], "ema", _fields(optimizer_config.EMAConfig))
        ema = _without_clipping({"type": "ema", "ema": overrides["ema"]}, config)
        settings["ema"] = ema["ema"]
    return OptimizationConfig(settings)


def _initial_rate(schedule: dict[str, Any]) -> float:
    settings = schedule[schedule["type"]]
    names = ("initial_learning_rate", "learning_rate")
    rates = [settings[name] for name in names if name in settings]
    if not rates:
        raise SettingError(
            "trainer.optimization.warmup",
            f"to_peak, but {schedule['type']} has no initial rate",
            advice="set warmup.to_peak.peak_learning_rate",
        )
    return float(rates[0])


def _count_warmup_steps(warmup: dict[str, Any]) -> int:
    kind = warmup["type"]
    if kind is None:  # as the Model Garden prints a configuration without warmup
        return 0
    steps = warmup[kind]["warmup_steps"]
    if not isinstance(steps, int) or steps < 0:
        raise SettingError(
            f"trainer.optimization.warmup.{kind}.warmup_steps",
            str(steps),
            "whole numbers from 0; the default follows from trainer.warmup_fraction",
        )
    return steps


def _check_keys(settings: Iterable[str], section: str, allowed: set[str]) -> None:
    unknown = set(settings) - allowed
    if unknown:
        raise SettingError(
            f"trainer.optimization.{section}".rstrip("."),
            f"unknown {', '.join(sorted(unknown))}",
            ", ".join(sorted(allowed)),
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
    if kind is None and section == "warmup":
        return {"type": None}
    factories = {field.name: field for field in dataclasses.fields(kinds)}
    known = (*OPTIMIZERS, LAYERWISE_ADAMW) if section == "optimizer" else factories
    allowed = sorted(set(known) - {"type"})
    if kind not in allowed:
        raise SettingError(
            f"trainer.optimization.{section}.type", repr(kind), ", ".join(allowed)
        )
    _check_keys(settings, section, {"type", kind})
    names = _fields(factories[kind].default_factory)
    chosen = settings.get(kind) or {}
    _check_keys(chosen, f"{section}.{kind}", names)
    defaults = {key: value for key, value in options.items() if key in names}
    # The Model Garden prints None for an option that is not set.
    chosen = {
        key: value
        for key, value in chosen.items()
        if value is not None or key == _EXCLUSIONS
    }
    return {"type": kind, kind: {**defaults, **chosen}}


def _without_clipping(section: dict[str, Any], config: TrainerConfig) -> dict[str, Any]:
    """Returns a section whose optimizer does not clip, since the task does.

    Raises:
      ValueError: The section clips in another way than `trainer.gradient_clip_norm`.
    """
    kind = section["type"]
    settings = dict(section[kind])
    for name in _CLIPPING:
        limit = settings.get(name)
        is_equal = name in _GLOBAL_CLIPPING and limit == config.gradient_clip_norm
        if limit and not is_equal:
            raise SettingError(
                "trainer.optimization",
                f"{name} of {kind} is {limit}",
                "null and 0",
                "leave it out: trainer.gradient_clip_norm, which is "
                f"{config.gradient_clip_norm}, clips the gradients' sum",
            )
        if name in settings:
            settings[name] = 0.0 if name == "gradient_clip_norm" else None
    return {**section, kind: settings}


def _with_layer_decay(
    optimizer: dict[str, Any], config: TrainerConfig, layers: int
) -> dict[str, Any]:
    kind = optimizer["type"]
    settings = {"layer_decay": config.layer_decay, "layers": layers, **optimizer[kind]}
    if kind == LAYERWISE_ADAMW and settings["layers"] != layers:
        raise SettingError(
            f"trainer.optimization.optimizer.{kind}.layers",
            f"{settings['layers']}, but the encoder has {layers}",
            advice="leave it out",
        )
    if config.layer_decay == 1 and kind != LAYERWISE_ADAMW:
        return optimizer
    if kind not in ("adamw", LAYERWISE_ADAMW):
        raise SettingError(
            "trainer.layer_decay",
            f"{config.layer_decay}, which works only with the optimizer adamw, not "
            f"with {kind}",
            advice="choose adamw, or leave layer_decay out",
        )
    return {"type": LAYERWISE_ADAMW, LAYERWISE_ADAMW: settings}


def build_optimizer(
    config: optimization_config.OptimizationConfig,
    *,
    transform_gradients: GradientTransformer | None = None,
    mixed_precision: str = computation.FLOAT32,
) -> tf_keras.optimizers.Optimizer:
    """Builds the optimizer of a configuration.

    Args:
      config: The configuration.
      transform_gradients: Applied to the gradients after the replicas' are summed.
      mixed_precision: `float16` scales the loss, so that small gradients survive.

    Raises:
      ValueError: A moving average is combined with `float16`.
    """
    if config.ema is not None and mixed_precision == computation.FLOAT16:
        raise SettingError(
            "trainer.optimization.ema",
            "does not work with mixed_precision float16, whose loss scaling hides the "
            "averages from the trainer",
            advice="use bfloat16",
        )
    factory = optimization.OptimizerFactory(config)
    transformers = [transform_gradients] if transform_gradients else None
    optimizer = factory.build_optimizer(
        factory.build_learning_rate(), gradient_transformers=transformers
    )
    return performance.configure_optimizer(
        optimizer, use_float16=mixed_precision == computation.FLOAT16
    )
