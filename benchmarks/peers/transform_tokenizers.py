"""Hugging Face `tokenizers` on the same rows; writes the ids alone, as plain int32."""

from __future__ import annotations

import csv
import itertools
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tokenizers import BertWordPieceTokenizer

from benchmarks import peer

_BATCH = 1000


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Makes the tokenizer.

    Args:
      settings: As of `transform_tf_data`; the rows are read of the TSV beside the
        TFRecords, for this environment has no TensorFlow.
    """

    def run(number: int) -> peer.Figures:
        del number
        output = Path(settings["output"])
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        started = time.perf_counter()
        tokenizer = BertWordPieceTokenizer(settings["vocab_file"], lowercase=True)
        tokenizer.enable_truncation(settings["max_seq_length"])
        with (
            open(Path(settings["data"]) / "rows.tsv", encoding="utf-8") as file,
            open(output / "ids", "wb") as ids,
            open(output / "lengths", "wb") as lengths,
        ):
            reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            pairs = ((first, second) for _, first, second in reader)
            while batch := list(itertools.islice(pairs, _BATCH)):
                for encoding in tokenizer.encode_batch(batch):
                    row = np.asarray(encoding.ids, np.int32)
                    ids.write(row.tobytes())
                    lengths.write(np.int32(len(row)).tobytes())
        return {
            "seconds": time.perf_counter() - started,
            "memory": peer.peak_memory(),
        }

    return run


if __name__ == "__main__":
    peer.serve(prepare)
