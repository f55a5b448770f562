"""ONNX Runtime with an exported file and tokenizer, called with batches of rows.

Settings: `model`, a folder that `export --format onnx` wrote; `file`, the ONNX file in
it; `rows`, `sizes` and `predictions`, as for `saved_model.py`. A file in int8 predicts
different probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers

from benchmarks import latency, peer
from benchmarks.latency import Row

_INPUTS = {
    "input_ids": "ids",
    "attention_mask": "attention_mask",
    "token_type_ids": "type_ids",
}


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Loads the model, and predicts all rows once."""
    rows = json.loads(Path(settings["rows"]).read_text())
    folder = Path(settings["model"])
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    session = onnxruntime.InferenceSession(
        str(folder / settings["file"]), providers=["CPUExecutionProvider"]
    )

    def call(batch: Sequence[Row]) -> np.ndarray:
        texts = [tuple(row) if len(row) > 1 else row[0] for row in batch]
        encodings = tokenizer.encode_batch(texts)
        feeds = {
            name: np.array([getattr(row, key) for row in encodings], np.int64)
            for name, key in _INPUTS.items()
        }
        (logits,) = session.run(None, feeds)
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: np.ndarray = exponentials / exponentials.sum(
            axis=1, keepdims=True
        )
        return probabilities

    for size in settings["sizes"]:
        batches = [call(batch) for batch in latency.batches(rows, size)]
    if settings["predictions"]:
        probabilities = np.concatenate(batches).tolist()
        Path(settings["predictions"]).write_text(json.dumps(probabilities))

    return lambda number: latency.measure(call, rows, settings["sizes"])


if __name__ == "__main__":
    peer.serve(prepare)
