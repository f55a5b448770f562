"""Pre-trained weights of either format, every tensor checked."""

from __future__ import annotations

from absl import logging

from modules.encoder import model_garden
from modules.encoder.directory import EncoderDirectory
from modules.encoder.hugging_face import HuggingFaceWeights
from modules.encoder.model import BertEncoder


def check_tensor_names(encoder: EncoderDirectory) -> None:
    """Compares the names and shapes of an encoder's tensors with BERT's.

    It reads almost no weights, so that a run can refuse an encoder at its start.

    Raises:
      EncoderError: The weights cannot be read, or a tensor is missing, unexpected, or
        of another shape.
    """
    if encoder.is_model_garden:
        model_garden.read_weights(encoder)
    else:
        HuggingFaceWeights(encoder)


def restore_encoder(model: BertEncoder, encoder: EncoderDirectory) -> None:
    """Loads the pre-trained weights.

    A pooler whose bias is 0 was never trained, as in sentence embedding models. The
    model then keeps its initial pooler.

    Raises:
      EncoderError: A tensor is missing, unexpected, or of another shape.
    """
    untrained = model.pooler_layer.get_weights()
    load_weights(model, encoder)
    _, bias = model.pooler_layer.get_weights()
    if not bias.any():
        logging.info("The pooler of %s is untrained (bias 0)", encoder.directory)
        model.pooler_layer.set_weights(untrained)


def load_weights(model: BertEncoder, encoder: EncoderDirectory) -> list[str]:
    """Loads the weights as they are stored, an untrained pooler included.

    Returns:
      Names of the tensors that are not part of the encoder and were left out.

    Raises:
      EncoderError: A tensor is missing, unexpected, or of another shape.
    """
    weights = (
        model_garden.read_weights(encoder, model)
        if encoder.is_model_garden
        else HuggingFaceWeights(encoder)
    )
    weights.restore(model)
    if weights.left_out:
        logging.info(
            "Left out of %s: %s", encoder.directory, ", ".join(weights.left_out)
        )
    return weights.left_out
