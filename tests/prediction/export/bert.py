"""A classifier in NumPy, from the tensors of an exported folder."""

import numpy as np
from tokenizers import Tokenizer

from tests.modules.encoder.test_restoring import reference_forward


def classify(tensors, config, word_ids, mask, type_ids):
    """Returns the outputs of Hugging Face's `BertForSequenceClassification`.

    Args:
      tensors: The weights by name.
      config: The content of `config.json`.
      word_ids: int[batch, seq_len].
      mask: int[batch, seq_len].
      type_ids: int[batch, seq_len].
    """
    encoder = {name.removeprefix("bert."): tensors[name] for name in tensors}
    hidden = reference_forward(encoder, config, word_ids, mask, type_ids)[:, 0]
    pooled = np.tanh(
        hidden @ encoder["pooler.dense.weight"].T + encoder["pooler.dense.bias"]
    )
    return pooled @ tensors["classifier.weight"].T + tensors["classifier.bias"]


def encode(folder, texts):
    """Returns ids, mask and types of texts as the exported tokenizer makes them."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encodings = tokenizer.encode_batch([t if len(t) > 1 else t[0] for t in texts])
    return [
        np.array([getattr(row, name) for row in encodings])
        for name in ("ids", "attention_mask", "type_ids")
    ]
