"""Runs ONNX files on token ids: the one file that ONNX Runtime's environment runs.

    python run_onnx.py INPUTS.npz OUTPUTS.npz FILE.onnx...

INPUTS.npz has the inputs of `bert_graph`, each int64[rows, longest]. OUTPUTS.npz gets
the logits of each file, float32[rows, outputs], by its path.
"""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime

_BATCH = 32


def main(inputs: str, outputs: str, *paths: str) -> None:
    """Predicts all rows, in batches that are padded to their longest row."""
    rows = dict(np.load(inputs))
    lengths = rows["attention_mask"].sum(axis=1)
    logits = {}
    for path in paths:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        batches = []
        for start in range(0, len(lengths), _BATCH):
            batch = slice(start, start + _BATCH)
            longest = lengths[batch].max()
            feeds = {name: ids[batch, :longest] for name, ids in rows.items()}
            batches += session.run(None, feeds)
        logits[path] = np.concatenate(batches)
    np.savez(outputs, **logits)


if __name__ == "__main__":
    main(*sys.argv[1:])
