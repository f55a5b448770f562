"""The pre-trained encoder: directory, model and weights.

`modules.encoder.conversion` converts other sources to such a directory. It is not
imported here, so that an edit in it does not retrain a model.
"""

from modules.encoder.directory import (
    EncoderDirectory,
    describe_architecture,
    open_encoder,
)
from modules.encoder.model import DropoutRates, build_encoder, dropout_rates
from modules.encoder.restoring import check_tensor_names, restore_encoder
from modules.encoder_files import EncoderError

__all__ = [
    "DropoutRates",
    "EncoderDirectory",
    "EncoderError",
    "build_encoder",
    "check_tensor_names",
    "describe_architecture",
    "dropout_rates",
    "open_encoder",
    "restore_encoder",
]
