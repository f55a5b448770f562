"""ONNX Runtime with Transformers' tokenizer, called with batches of rows.

Settings: those of `transformers_pipeline.py`, and `int8`, whether the weights of matrix
products are quantized. An int8 model predicts different probabilities.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import transformers
from onnxruntime import quantization

from benchmarks import latency, peer
from benchmarks.latency import Row

_TOKENS = ("input_ids", "attention_mask", "token_type_ids")


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Loads the model, and predicts all rows once."""
    rows = json.loads(Path(settings["rows"]).read_text())
    tokenizer = transformers.AutoTokenizer.from_pretrained(settings["model"])
    session = _open_session(settings["model"], settings["int8"])

    def call(batch: Sequence[Row]) -> np.ndarray:
        tokens = tokenizer(
            *map(list, zip(*batch, strict=True)),
            padding=True,
            truncation=True,
            max_length=settings["max_seq_length"],
            return_tensors="np",
        )
        feeds = {name: tokens[name].astype(np.int64) for name in _TOKENS}
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


def _open_session(model: str, is_int8: bool) -> onnxruntime.InferenceSession:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.onnx"
        classifier = transformers.AutoModelForSequenceClassification.from_pretrained(
            model, attn_implementation="eager"
        )
        ones = torch.ones((2, 8), dtype=torch.int64)
        axes = {name: {0: "batch", 1: "seq_len"} for name in _TOKENS}
        torch.onnx.export(
            classifier.eval(),
            (),
            str(path),
            kwargs=dict.fromkeys(_TOKENS, ones) | {"return_dict": False},
            input_names=list(_TOKENS),
            output_names=["logits"],
            dynamic_axes=axes | {"logits": {0: "batch"}},
            dynamo=False,
        )
        if is_int8:
            quantized = path.with_name("int8.onnx")
            quantization.quantize_dynamic(path, quantized)
            path = quantized
        return onnxruntime.InferenceSession(
            path.read_bytes(), providers=["CPUExecutionProvider"]
        )


if __name__ == "__main__":
    peer.serve(prepare)
