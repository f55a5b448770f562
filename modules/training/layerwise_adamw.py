"""AdamW with a learning rate per layer, among the Model Garden's optimizers."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import tensorflow as tf
from official.modeling import optimization
from official.modeling.optimization import legacy_adamw, optimizer_factory
from official.modeling.optimization.configs import optimizer_config

LAYERWISE_ADAMW = "layerwise_adamw"
_LAYER = re.compile(r"\blayer_(\d+)/")
_EMBEDDINGS = re.compile(r"(word|position|type)_embeddings?/|^embeddings/")


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
