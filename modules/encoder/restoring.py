"""Pre-trained weights, from either format, every tensor accounted for."""

from __future__ import annotations

from absl import logging
from official.nlp.modeling import networks

from modules.encoder import hugging_face, model_garden
from modules.encoder.directory import EncoderDirectory


def check_tensor_names(encoder: EncoderDirectory) -> None:
    """Compares an encoder's tensors, by names and shapes, with what BERT needs.

    It reads no weights, so that those that cannot be restored are refused before
    anything else is done.

    Raises:
      EncoderError: The weights cannot be read, or a tensor is missing, unexpected, or
        of another shape.
    """
    source = model_garden if encoder.is_model_garden else hugging_face
    source.check(encoder)


def restore_encoder(model: networks.BertEncoder, encoder: EncoderDirectory) -> None:
    """Loads the pre-trained weights and accounts for every tensor.

    A pooler whose bias is all 0 was never trained (sentence embedding models come so):
    it keeps the values it was built with.

    Args:
      model: What `build_encoder` returned for the same directory.
      encoder: The directory.

    Raises:
      EncoderError: A tensor is missing, unexpected, or of another shape.
    """
    untrained = model.pooler_layer.get_weights()
    load_weights(model, encoder)
    _, bias = model.pooler_layer.get_weights()
    if not bias.any():
        logging.info("The pooler of %s is untrained (bias 0)", encoder.directory)
        model.pooler_layer.set_weights(untrained)


def load_weights(model: networks.BertEncoder, encoder: EncoderDirectory) -> list[str]:
    """Loads the weights as they are stored, an untrained pooler's too.

    Args:
      model: What `build_encoder` returned for the same directory.
      encoder: The directory.

    Returns:
      Names of the tensors that are no part of the encoder and were left out.

    Raises:
      EncoderError: A tensor is missing, unexpected, or of another shape.
    """
    source = model_garden if encoder.is_model_garden else hugging_face
    return source.restore(model, encoder)
