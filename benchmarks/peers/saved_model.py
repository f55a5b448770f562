"""A SavedModel's `serving_default`, called from one thread with batches of rows.

Settings: `model`, its directory; `rows`, a JSON file of rows, each a list of texts;
`columns`, the names of the texts; `sizes`, the batch sizes; `predictions`, the output
file of all rows' class probabilities, or None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from benchmarks import latency, peer
from benchmarks.latency import Row
from contracts.versions import exported_model


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Loads the model, and predicts all rows once."""
    rows = json.loads(Path(settings["rows"]).read_text())
    loaded = tf.saved_model.load(settings["model"])

    def call(batch: Sequence[Row]) -> dict[str, np.ndarray]:
        texts = zip(settings["columns"], zip(*batch, strict=True), strict=True)
        inputs = {name: tf.constant(column) for name, column in texts}
        # Called through `loaded`: a signature does not keep the variables alive.
        outputs = loaded.signatures[exported_model.SERVING_DEFAULT](**inputs)
        return {name: output.numpy() for name, output in outputs.items()}

    for size in settings["sizes"]:
        batches = [call(batch) for batch in latency.batches(rows, size)]
    if settings["predictions"]:
        logits = np.concatenate([outputs[exported_model.LOGITS] for outputs in batches])
        probabilities = tf.nn.softmax(logits).numpy().tolist()
        Path(settings["predictions"]).write_text(json.dumps(probabilities))

    return lambda number: latency.measure(call, rows, settings["sizes"])


if __name__ == "__main__":
    peer.serve(prepare)
