"""A SavedModel's `serving_default`, called from one thread, as many rows as asked.

Settings: `model`, its directory; `rows`, a JSON file of rows, each a text a column;
`columns`, their names; `sizes`, rows of a call; `answers`, where the class
probabilities of all rows are written; None for a model that may give anything else.
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


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Loads the model, and asks it for all rows once."""
    rows = json.loads(Path(settings["rows"]).read_text())
    loaded = tf.saved_model.load(settings["model"])

    def call(batch: Sequence[Row]) -> dict[str, np.ndarray]:
        texts = zip(settings["columns"], zip(*batch, strict=True), strict=True)
        inputs = {name: tf.constant(column) for name, column in texts}
        # By way of `loaded`, which alone holds the variables alive.
        outputs = loaded.signatures["serving_default"](**inputs)
        return {name: output.numpy() for name, output in outputs.items()}

    for size in settings["sizes"]:
        found = [call(batch) for batch in latency.batches(rows, size)]
    if settings["answers"]:
        logits = np.concatenate([outputs["logits"] for outputs in found])
        probabilities = tf.nn.softmax(logits).numpy().tolist()
        Path(settings["answers"]).write_text(json.dumps(probabilities))

    return lambda number: latency.measure(call, rows, settings["sizes"])


if __name__ == "__main__":
    peer.serve(prepare)
