"""`bert_runtime.Model`, called from one thread with batches of rows.

Settings: `model`, a folder that `export --format onnx` wrote; `is_int8`; `rows`,
`sizes` and `predictions`, as for `saved_model.py`; `threads`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import latency, peer
from benchmarks.latency import Row
from bert_runtime import Model
from contracts.versions import exported_model
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
        outputs = PortableModel(settings["model"], file=file).predict(
            list(zip(*rows, strict=True))
        )
        probabilities = outputs[exported_model.PROBABILITIES].tolist()
        Path(settings["predictions"]).write_text(json.dumps(probabilities))
    return run_round


if __name__ == "__main__":
    peer.serve(prepare)
