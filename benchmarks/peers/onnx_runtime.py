"""A bare session of ONNX Runtime, called with token ids that were prepared.

Settings: `model`, a folder that `export --format onnx` wrote, and `file`, the ONNX file
in it; `rows` and `sizes`, as for `saved_model.py`; `threads`; `chunk`, rows of a call:
a batch is sorted by length first, as the runtime does it. None pads all rows of a
batch to the longest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from benchmarks import latency, peer
from portable import folder, packing
from portable.packing import Packed


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Loads the model, tokenizes the rows, and predicts them once."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = settings["threads"]
    session = onnxruntime.InferenceSession(
        str(Path(settings["model"], settings["file"])),
        options,
        providers=["CPUExecutionProvider"],
    )
    rows = pack(settings["model"], json.loads(Path(settings["rows"]).read_text()))
    prepared = {
        batch: [feed(chunk) for chunk in _split(rows, batch, settings["chunk"])]
        for size in settings["sizes"]
        for batch in latency.batches(range(len(rows)), size)
    }

    def call(batch: Sequence[int]) -> None:
        for feeds in prepared[batch]:
            session.run([folder.LOGITS], feeds)

    def run_round(number: int) -> peer.Figures:
        return latency.measure(call, range(len(rows)), settings["sizes"])

    run_round(0)
    return run_round


def pack(directory: str, rows: Sequence[Sequence[str]]) -> list[Packed]:
    """Tokenizes and packs rows, each the texts of its columns, without windows."""
    described = folder.read_description(directory)
    tokenizer = folder.read_tokenizer(directory, described)
    return [
        packed
        for segments in map(tokenizer.tokenize, rows)
        for packed in packing.pack(
            segments,
            described.packing.whole,
            special_token_ids=tokenizer.special_token_ids,
            type_vocab_size=described.type_vocab_size,
        )
    ]


def feed(rows: Sequence[Packed]) -> dict[str, np.ndarray]:
    """Returns the inputs of a session."""
    return dict(zip(folder.INPUTS, packing.pad(rows), strict=True))


def _split(
    rows: Sequence[Packed], batch: Sequence[int], size: int | None
) -> list[list[Packed]]:
    packed = [rows[index] for index in batch]
    if size is None:
        return [packed]
    packed.sort(key=lambda row: len(row.ids))
    return [list(chunk) for chunk in latency.batches(packed, size)]


if __name__ == "__main__":
    peer.serve(prepare)
