"""The files in an encoder's directory, and the keys of its configuration."""

from __future__ import annotations

import json
from typing import Any

from contracts.errors import UsageError
from contracts.storage import files

VOCAB_FILE = "vocab.txt"
MODEL_GARDEN_CONFIG = "bert_config.json"
MODEL_GARDEN_WEIGHTS = "bert_model.ckpt"
HUGGING_FACE_CONFIG = "config.json"
HUGGING_FACE_WEIGHTS = "model.safetensors"
HUGGING_FACE_INDEX = "model.safetensors.index.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILE = "tokenizer.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
ADDED_TOKENS_FILE = "added_tokens.json"

TYPES_KEY = "type_vocab_size"
# Sizes have the same keys in both formats (google-research/bert, `BertConfig`).
SIZE_KEYS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    TYPES_KEY,
)
APPROXIMATE_GELU_KEY = "approximate_gelu"  # only `import-encoder` writes it

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
MASK_TOKEN = "[MASK]"  # of pre-training; a vocabulary may lack it


class EncoderError(UsageError):
    """An encoder is incomplete, not a BERT, or does not match its configuration."""


def missing(path: str, got: str, advice: str) -> EncoderError:
    """Returns the error of an encoder without a file or a variable that it needs."""
    return EncoderError(path, got, advice=advice, name="E-encoder-not-found")


def damaged(path: str, got: str, **fields: str) -> EncoderError:
    """Returns the error of a file with damaged or wrong content.

    Args:
      path: The file.
      got: The problem.
      **fields: `allowed`, `advice`; the default is the advice to copy the file again.
    """
    fields = fields or {"advice": "copy it again from the encoder's source"}
    return EncoderError(path, got, **fields, name="E-encoder-file-damaged")


def unsupported(path: str, got: str, **fields: str) -> EncoderError:
    """Returns the error of an encoder that computes something else than BERT.

    Args:
      path: A file or the directory.
      got: The difference from BERT.
      **fields: `allowed`, `advice`; the default is the advice to use another encoder.
    """
    fields = fields or {"advice": "use another encoder"}
    return EncoderError(path, got, **fields, name="E-encoder-not-supported")


def list_files(directory: str) -> list[str]:
    """Returns the names in a directory; empty if it does not exist.

    Raises:
      EncoderError: The directory is local and cannot be read.
    """
    try:
        return sorted(files.list_names(directory))
    except OSError as error:
        raise EncoderError(
            directory,
            f"cannot be listed: {error.strerror}",
            advice="make the directory readable",
            name="E-storage-failed",
        ) from error


def find_config(directory: str) -> str | None:
    """Returns the name of an encoder's configuration file; None if it is missing.

    If there are those of both formats, the weights decide.
    """
    names = set(list_files(directory))
    weights = {
        MODEL_GARDEN_CONFIG: any(n.startswith(MODEL_GARDEN_WEIGHTS) for n in names),
        HUGGING_FACE_CONFIG: bool(names & {HUGGING_FACE_WEIGHTS, HUGGING_FACE_INDEX}),
    }
    configs = [name for name in weights if name in names]
    return max(configs, key=weights.__getitem__, default=None)  # the first of several


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON file that holds an object.

    Raises:
      EncoderError: The file is not JSON, or not an object.
    """
    from tensorflow.io import gfile

    with gfile.GFile(path, "rb") as file:
        text = file.read()
    try:
        content = json.loads(text)
    except ValueError as error:
        raise damaged(path, f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise damaged(path, f"a {type(content).__name__}", allowed="a JSON object")
    return content
