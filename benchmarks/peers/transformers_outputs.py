"""Token ids and logits of Transformers, for a test of an exported folder.

    python -m benchmarks.peers.transformers_outputs FOLDER ROWS.json OUTPUTS.npz

ROWS.json has a list of rows, each with its texts. OUTPUTS.npz gets `input_ids` and
`token_type_ids` int64[rows, longest], padded with -1, and `logits` float32[rows,
outputs].
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

_BATCH = 64


def main(folder: str, rows: str, outputs: str) -> None:
    """Tokenizes and predicts as the README of the folder does."""
    texts = json.loads(Path(rows).read_text())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    auto = transformers.AutoModelForSequenceClassification
    model = auto.from_pretrained(folder).eval()
    logits = []
    for start in range(0, len(texts), _BATCH):
        columns = map(list, zip(*texts[start : start + _BATCH], strict=True))
        inputs = tokenizer(*columns, truncation=True, padding=True, return_tensors="pt")
        with torch.no_grad():
            logits.append(model(**inputs).logits.numpy())
    encoded = tokenizer(*map(list, zip(*texts, strict=True)), truncation=True)
    longest = max(map(len, encoded["input_ids"]))
    ids = {
        name: np.array([row + [-1] * (longest - len(row)) for row in encoded[name]])
        for name in ("input_ids", "token_type_ids")
    }
    np.savez(outputs, **ids, logits=np.concatenate(logits))


if __name__ == "__main__":
    main(*sys.argv[1:])
