"""The Model Garden's encoder, of any size that a configuration describes."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
import tf_keras
from official.nlp.modeling import networks

from modules.encoder.directory import SIZE_KEYS, EncoderDirectory
from modules.encoder.layers import approximate_gelu, gelu, use_fast_layers

LAYER_NORM_EPSILON = 1e-12  # the Model Garden's, Google's and most of Hugging Face's


def build_encoder(
    encoder: EncoderDirectory, *, dropout: float, output_range: int | None = None
) -> networks.BertEncoder:
    """Builds the Model Garden encoder that a directory describes, weights untrained.

    Args:
      encoder: The directory.
      dropout: Rate after embeddings, attention and feed-forward layers.
      output_range: Positions that the last layer computes, from the first; a
        classifier reads but one. None is all.

    Returns:
      A model from `input_word_ids`, `input_mask`, `input_type_ids`, each
      int32[batch, seq_len], to `sequence_output` float32[batch, output_range or
      seq_len, hidden] and `pooled_output` float32[batch, hidden].
    """
    size = {key: int(encoder.config[key]) for key in SIZE_KEYS}
    model = networks.BertEncoder(
        vocab_size=size["vocab_size"],
        hidden_size=size["hidden_size"],
        num_layers=size["num_hidden_layers"],
        num_attention_heads=size["num_attention_heads"],
        max_sequence_length=size["max_position_embeddings"],
        type_vocab_size=size["type_vocab_size"],
        inner_dim=size["intermediate_size"],
        inner_activation=_activation(encoder),
        output_dropout=dropout,
        attention_dropout=dropout,
        output_range=output_range,
        initializer=tf_keras.initializers.TruncatedNormal(
            stddev=encoder.config.get("initializer_range", 0.02)
        ),
        dict_outputs=True,
    )
    # BertEncoder has no argument for it; the layers read it when they are called.
    for layer in model.submodules:
        if isinstance(layer, tf_keras.layers.LayerNormalization):
            layer.epsilon = encoder.config.get("layer_norm_eps", LAYER_NORM_EPSILON)
    use_fast_layers(model)
    return model


def _activation(encoder: EncoderDirectory) -> Callable[[tf.Tensor], tf.Tensor]:
    name = encoder.config.get("hidden_act", "gelu")
    if not name.startswith("gelu"):
        return tf_keras.activations.get(name)
    return approximate_gelu if encoder.is_gelu_approximate else gelu
