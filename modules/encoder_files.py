"""The files in an encoder's directory, and the keys of its configuration."""

from __future__ import annotations

VOCAB_FILE = "vocab.txt"
MODEL_GARDEN_CONFIG = "bert_config.json"
MODEL_GARDEN_WEIGHTS = "bert_model.ckpt"
HUGGING_FACE_CONFIG = "config.json"
HUGGING_FACE_WEIGHTS = "model.safetensors"
HUGGING_FACE_INDEX = "model.safetensors.index.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILE = "tokenizer.json"

LOWER_CASE_KEY = "do_lower_case"
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


def read_vocabulary(path: str) -> list[str]:
    """Returns the tokens of a vocabulary, one a line, in the order of their ids.

    A byte order mark, white space at the end of a line (as the carriage return of
    Windows) and empty lines at the end are not part of the tokens.

    Args:
      path: A local or remote file.

    Raises:
      UnicodeDecodeError: The file is not UTF-8.
    """
    from tensorflow.io import gfile

    with gfile.GFile(path, "rb") as file:
        text = file.read().decode("utf-8-sig")
    # Not `splitlines`: a token may be a line separator of Unicode.
    return [line.rstrip(" \t\r") for line in text.rstrip(" \t\r\n").split("\n")]
