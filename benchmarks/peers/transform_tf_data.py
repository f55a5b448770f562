"""The same tokenizer in plain tf.data, which writes the same TFRecords as Transform."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import peer, spans

_BATCH = 1000


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Imports TensorFlow and the tokenizer.

    Args:
      settings: As of `transform_tfx`; `vocab_file` and `max_seq_length` are the
        tokenizer's.
    """
    recorder = spans.Recorder()
    recorder.attach()
    import tensorflow as tf

    from modules.data import preprocessing

    def tokenize(records: tf.Tensor) -> dict[str, Any]:
        text = tf.io.FixedLenFeature([], tf.string)
        number = tf.io.FixedLenFeature([], tf.int64)
        row = tf.io.parse_example(
            records,
            {"sentence1": text, "sentence2": text, "label": number, "idx": number},
        )
        packed = preprocessing.text_to_inputs(
            [row["sentence1"], row["sentence2"]],
            settings["vocab_file"],
            settings["max_seq_length"],
        )
        return {**packed, "label": row["label"], "idx": row["idx"]}

    def run(number: int) -> peer.Figures:
        del number
        output = Path(settings["output"])
        shutil.rmtree(output, ignore_errors=True)
        started = time.perf_counter()
        for split in sorted(Path(settings["data"]).glob("Split-*")):
            (output / split.name).mkdir(parents=True)
            files = tf.data.Dataset.list_files(f"{split}/*", shuffle=False)
            records = tf.data.TFRecordDataset(files, "GZIP").batch(_BATCH)
            batches = records.map(tokenize, num_parallel_calls=tf.data.AUTOTUNE)
            path = str(output / split.name / "rows.gz")
            with tf.io.TFRecordWriter(path, options="GZIP") as writer:
                for batch in batches.prefetch(tf.data.AUTOTUNE):
                    for example in _examples(tf, batch):
                        writer.write(example.SerializeToString())
        seconds = time.perf_counter() - started
        return {
            "seconds": seconds,
            "import": recorder.total(spans.IMPORT),
            "tracing": recorder.total(spans.TRACE),
            "memory": peer.peak_memory(),
        }

    return run


def _examples(tf: Any, batch: dict[str, Any]) -> Any:
    columns = {
        name: [[value] for value in column.numpy().tolist()]
        if isinstance(column, tf.Tensor)
        else column.to_list()
        for name, column in batch.items()
    }
    for values in zip(*columns.values(), strict=True):
        features = {
            name: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
            for name, value in zip(columns, values, strict=True)
        }
        yield tf.train.Example(features=tf.train.Features(feature=features))


if __name__ == "__main__":
    peer.serve(prepare)
