"""Transformers' text-classification pipeline on PyTorch, called with batches of rows.

Settings: `model`, a folder for `from_pretrained`; `max_seq_length`; the others are
those of `saved_model.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import transformers

from benchmarks import latency, peer
from benchmarks.latency import Row


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Loads the model, and predicts all rows once."""
    rows = json.loads(Path(settings["rows"]).read_text())
    classify = transformers.pipeline(
        "text-classification",
        model=settings["model"],
        device="cpu",
        top_k=None,
        truncation=True,
        max_length=settings["max_seq_length"],
    )

    def call(batch: Sequence[Row]) -> list[Any]:
        texts = [dict(zip(("text", "text_pair"), row, strict=False)) for row in batch]
        predictions: list[Any] = classify(texts, batch_size=len(texts))
        return predictions

    for size in settings["sizes"]:
        batches = latency.batches(rows, size)
        predictions = [scores for batch in batches for scores in call(batch)]
    order = classify.model.config.label2id
    probabilities = [[0.0] * len(order) for _ in predictions]
    for row, scores in zip(probabilities, predictions, strict=True):
        for entry in scores:
            row[order[entry["label"]]] = entry["score"]
    Path(settings["predictions"]).write_text(json.dumps(probabilities))

    return lambda number: latency.measure(call, rows, settings["sizes"])


if __name__ == "__main__":
    peer.serve(prepare)
