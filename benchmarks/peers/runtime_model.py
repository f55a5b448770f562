"""`bert_runtime.Model`, called from one thread with batches of rows.

Settings: `model`, a folder that `export --format onnx` wrote; `is_int8`; `rows`,
`sizes` and `predictions`, as for `saved_model.py`, without the temperature; `threads`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks import latency, peer
from benchmarks.latency import Row
from bert_runtime import Model
from portable.folder import INT8_FILE, ONNX_FILE
from portable.model import PortableModel


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Loads the model, and predicts all rows once."""
    rows = [tuple(row) for row in json.loads(Path(settings["rows"]).read_text())]
    model = Model(
        settings["model"], int8=settings["is_int8"], threads=settings["threads"]
    )

    def call(batch: Sequence[Row]) -> None:
        model.predict(batch)

    def run_round(number: int) -> peer.Figures:
        return latency.measure(call, rows, settings["sizes"])

    run_round(0)
    if settings["predictions"]:
        file = INT8_FILE if settings["is_int8"] else ONNX_FILE
        # `Model` returns the probability of the predicted class only.
        portable = PortableModel(settings["model"], file=file)
        logits = portable.compute_logits(list(zip(*rows, strict=True)))
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        Path(settings["predictions"]).write_text(json.dumps(probabilities.tolist()))
    return run_round


if __name__ == "__main__":
    peer.serve(prepare)
