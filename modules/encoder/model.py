"""BERT's encoder, of any size that a configuration describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers as upstream

from modules.data.preprocessing import ENCODER_INPUTS
from modules.encoder.directory import EncoderDirectory
from modules.encoder.layers import (
    Activation,
    Config,
    Dropout,
    EncoderBlock,
    LayerNormalization,
    approximate_gelu,
    gelu,
    initializer,
)
from modules.encoder_files import TYPES_KEY, EncoderError, damaged

# The values of keys that a configuration leaves out: the Model Garden's, Google's and
# most of Hugging Face's.
DEFAULTS = {
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
}
HEAD_DROPOUT_KEY = "classifier_dropout"  # Hugging Face's
Shape = tuple[int, ...]

# The encoder's layers outside of its blocks, with the Model Garden's names. The name of
# a variable begins with that of its layer.
WORD_EMBEDDINGS = "word_embeddings"
POSITION_EMBEDDING = "position_embedding"
TYPE_EMBEDDINGS = "type_embeddings"
EMBEDDING_NORM = "embeddings/layer_norm"
POOLER = "pooler_transform"


class DropoutRates(NamedTuple):
    """Dropout rates of a model.

    Attributes:
      hidden: After embeddings, attention and feed-forward layers.
      attention: Of the attention's probabilities.
      head: Before the classification head.
    """

    hidden: float
    attention: float
    head: float

    @classmethod
    def of_hidden(cls, rate: float, attention: float | None = None) -> DropoutRates:
        """Returns the rates of a Model Garden classifier.

        It applies the hidden rate to the pooled output twice, before the head and in
        the head. One mask with the combined rate does the same.
        """
        return cls(rate, rate if attention is None else attention, 1 - (1 - rate) ** 2)

    @classmethod
    def of_encoder(cls, encoder: EncoderDirectory) -> DropoutRates:
        """Returns the dropout rates of an encoder's configuration.

        Raises:
          EncoderError: A rate is not a number from 0 to below 1.
        """
        config = {**DEFAULTS, **encoder.config}
        hidden, attention = "hidden_dropout_prob", "attention_probs_dropout_prob"
        has_head = config.get(HEAD_DROPOUT_KEY) is not None
        for key in (hidden, attention, *([HEAD_DROPOUT_KEY] if has_head else [])):
            rate = config[key]
            if not isinstance(rate, int | float) or not 0 <= rate < 1:
                raise EncoderError(
                    encoder.path(encoder.config_file),
                    f"{key} {rate!r}",
                    "0 to below 1",
                    "correct the file, or set `trainer.dropout`",
                    name="E-settings-refused",
                )
        rates = cls.of_hidden(float(config[hidden]), float(config[attention]))
        # Hugging Face applies the head's rate once.
        return (
            rates._replace(head=float(config[HEAD_DROPOUT_KEY])) if has_head else rates
        )


class BertEncoder(tf_keras.Model):
    """BERT's encoder (Devlin et al. 2018) as a functional Keras model.

    It replaces `official.nlp.modeling.networks.BertEncoder` as the network of a
    classifier or pretrainer. Inputs, variable names and paths in a checkpoint are the
    same, so each reads the checkpoints of the other.
    """

    def __init__(
        self,
        config: Config,
        activation: Activation,
        dropout: float,
        attention_dropout: float,
        output_range: int | None = None,
    ) -> None:
        word_ids, mask, type_ids = (
            tf_keras.Input([None], dtype=tf.int32, name=name) for name in ENCODER_INPUTS
        )
        word_embedding = upstream.OnDeviceEmbedding(
            config["vocab_size"],
            config["hidden_size"],
            initializer(config),
            name=WORD_EMBEDDINGS,
        )
        position_embedding = upstream.PositionEmbedding(
            config["max_position_embeddings"],
            initializer(config),
            name=POSITION_EMBEDDING,
        )
        type_embedding = upstream.OnDeviceEmbedding(
            config[TYPES_KEY],
            config["hidden_size"],
            initializer(config),
            use_one_hot=True,
            name=TYPE_EMBEDDINGS,
        )
        norm = LayerNormalization(
            name=EMBEDDING_NORM,
            epsilon=config["layer_norm_eps"],
            dtype=tf.float32,
        )
        words = word_embedding(word_ids)
        embeddings = [words, position_embedding(words), type_embedding(type_ids)]
        hidden = norm(tf_keras.layers.Add()(embeddings))
        hidden = Dropout(dropout)(hidden)
        attention_mask = upstream.SelfAttentionMask()(hidden, mask)
        blocks = [
            EncoderBlock(
                config,
                activation,
                dropout,
                attention_dropout,
                name=f"transformer/layer_{index}",
            )
            for index in range(config["num_hidden_layers"])
        ]
        for block in blocks[:-1]:
            hidden = block([hidden, attention_mask])
        hidden = blocks[-1]([hidden, attention_mask], output_range=output_range)
        pooler = tf_keras.layers.Dense(
            config["hidden_size"],
            activation="tanh",
            kernel_initializer=initializer(config),
            name=POOLER,
        )
        outputs = {"sequence_output": hidden, "pooled_output": pooler(hidden[:, 0, :])}
        super().__init__(inputs=[word_ids, mask, type_ids], outputs=outputs)
        self._pooler_layer = pooler
        self._transformer_layers = blocks
        self._embedding_norm_layer = norm
        self._embedding_layer = word_embedding
        self._position_embedding_layer = position_embedding
        self._type_embedding_layer = type_embedding

    @property
    def pooler_layer(self) -> tf_keras.layers.Dense:
        """The pooler."""
        return self._pooler_layer

    @property
    def transformer_layers(self) -> list[EncoderBlock]:
        """The blocks, the lowest first."""
        return self._transformer_layers

    def get_embedding_table(self) -> tf.Variable:
        """Returns the word embeddings, which a masked language model head shares."""
        return self._embedding_layer.embeddings


def build_encoder(
    encoder: EncoderDirectory,
    *,
    dropout: float,
    attention_dropout: float | None = None,
    output_range: int | None = None,
) -> BertEncoder:
    """Builds the encoder that a directory describes, with untrained weights.

    Args:
      encoder: The directory.
      dropout: Rate after embeddings, attention and feed-forward layers.
      attention_dropout: Rate of the attention's probabilities; None is `dropout`.
      output_range: Positions that the last layer computes, from the first; a
        classifier reads only one. None is all.

    Returns:
      A model from `input_word_ids`, `input_mask`, `input_type_ids`, each
      int32[batch, seq_len], to `sequence_output` float32[batch, output_range or
      seq_len, hidden] and `pooled_output` float32[batch, hidden].
    """
    if attention_dropout is None:
        attention_dropout = dropout
    name = encoder.config.get("hidden_act", "gelu")
    if name.startswith("gelu"):
        activation = approximate_gelu if encoder.is_gelu_approximate else gelu
    else:
        activation = tf_keras.activations.get(name)
    return BertEncoder(
        {**DEFAULTS, **encoder.config},
        activation,
        dropout,
        attention_dropout,
        output_range,
    )


def variable_name(variable: tf.Variable) -> str:
    """Returns a variable's name without the suffix of its output."""
    return variable.name.removesuffix(":0")


def variable_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Returns the shape of every variable of an encoder by its name."""
    hidden, inner = (config["hidden_size"],), (config["intermediate_size"],)
    heads = config["num_attention_heads"]
    by_head = (heads, config["hidden_size"] // heads)
    shapes: dict[str, Shape] = {
        f"{layer}/embeddings": (config[key], *hidden)
        for layer, key in (
            (WORD_EMBEDDINGS, "vocab_size"),
            (POSITION_EMBEDDING, "max_position_embeddings"),
            (TYPE_EMBEDDINGS, TYPES_KEY),
        )
    }
    dense: dict[str, tuple[Shape, Shape]] = {POOLER: (hidden, hidden)}
    norms = [EMBEDDING_NORM]
    for index in range(config["num_hidden_layers"]):
        layer = f"transformer/layer_{index}"
        for name in ("query", "key", "value"):
            dense[f"{layer}/self_attention/{name}"] = (hidden, by_head)
        dense[f"{layer}/self_attention/attention_output"] = (by_head, hidden)
        dense[f"{layer}/intermediate"] = (hidden, inner)
        dense[f"{layer}/output"] = (inner, hidden)
        norms += [f"{layer}/self_attention_layer_norm", f"{layer}/output_layer_norm"]
    for name, (inputs, outputs) in dense.items():
        shapes |= {f"{name}/kernel": inputs + outputs, f"{name}/bias": outputs}
    for name in norms:
        shapes |= {f"{name}/gamma": hidden, f"{name}/beta": hidden}
    return shapes


def check_tensors(
    path: str, stored: Mapping[str, Shape], expected: Mapping[str, Shape]
) -> None:
    """Compares stored tensors with the encoder's.

    Raises:
      EncoderError: They differ. The message names every tensor that is missing,
        unexpected or of another shape.
    """
    missing = sorted(expected.keys() - stored.keys())
    unexpected = sorted(stored.keys() - expected.keys())
    problems = [f"missing {', '.join(missing)}"] if missing else []
    if unexpected:
        problems.append(f"unexpected {', '.join(unexpected)}")
    problems += [
        f"{name} has shape {stored[name]} instead of {expected[name]}"
        for name in sorted(stored.keys() & expected.keys())
        if stored[name] != expected[name]
    ]
    if problems:
        raise damaged(path, "; ".join(problems))
