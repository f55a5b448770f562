"""Models, and files of rows in all formats."""

import csv
import gzip
import json

import pyarrow as pa
import pytest
import tensorflow as tf
from apache_beam.io.filesystems import FileSystems
from pyarrow import parquet

from ingest.examples import tf_examples
from prediction.batch import destination
from tests import tiny, toy_models

# Quotes, other alphabets, a character beyond 16 bits, a space at the end.
ROWS = [
    {"n": "1", "left": 'The "cat" sees', "right": "a dog."},
    {"n": "2", "left": "Größe 日本語", "right": "the 🐟 likes "},
    {"n": "3", "left": "!", "right": "a " * 60},
    {"n": "4", "left": "the cat", "right": "'; \\t --"},
]


class LongerOfExamples(toy_models.Longer):
    """The toy model of pairs, which also takes serialized Examples of text."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve_examples(self, examples):
        """Predicts as `serve` does."""
        text = tf.io.FixedLenFeature([], tf.string)
        return self.serve(
            **tf.io.parse_example(examples, {"left": text, "right": text})
        )


@pytest.fixture(scope="session")
def longer(tmp_path_factory):
    """A toy model of pairs in a directory of versions; a call takes microseconds."""
    model, root = LongerOfExamples(), tmp_path_factory.mktemp("longer")
    signatures = {
        "serving_default": model.serve,
        "serve_examples": model.serve_examples,
    }
    tf.saved_model.save(model, str(root / "7"), signatures=signatures)
    return str(root)


@pytest.fixture(scope="session")
def pairs(export):
    """An exported classifier of pairs."""
    return export("pairs")


@pytest.fixture(scope="session")
def token_scores(export):
    """An exported regression that was trained on tokens of fixed length."""
    return export("tokens of sentences")


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory):
    """The vocabulary of the exported models."""
    directory = tmp_path_factory.mktemp("vocabulary") / "encoder"
    return str(tiny.write_encoder(directory) / "vocab.txt")


@pytest.fixture
def source(tmp_path):
    return str(write_rows(tmp_path / "in.tsv", [{"left": "a", "right": "."}] * 3))


def begin_with_shard(directory):
    """Begins to write a directory of predictions, without Beam; returns it."""
    target = destination.create(directory)
    target.begin()
    shard = f"{target.working}/predictions{target.suffix}-00000-of-00001.tsv"
    with FileSystems.create(shard) as file:
        file.write(b"left\n")
    return target


def write_rows(path, rows):
    """Writes rows in the format of the file's name."""
    if ".tsv" in path.name:
        lines = ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    elif ".jsonl" in path.name:
        content = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    elif ".csv" in path.name:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif ".arrow" in path.name:
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    elif ".parquet" in path.name:
        parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
    else:
        write_examples(path, [tf_examples.from_row(row) for row in rows])
    return path


def write_examples(path, records):
    """Writes TFRecords, gzipped if the name ends with `.gz`."""
    packed = "GZIP" if path.name.endswith(".gz") else None
    with tf.io.TFRecordWriter(str(path), options=packed) as writer:
        for record in records:
            writer.write(record)
    return path


def read_shards(directory, file_format, prefix="predictions"):
    """Returns the rows of all shards."""
    rows = []
    for path in sorted(directory.glob(f"{prefix}*.{file_format}*")):
        if file_format == "tsv":
            with open(path, encoding="utf-8", newline="\n") as file:
                lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
                header = next(lines)
                rows += [dict(zip(header, line, strict=True)) for line in lines]
        elif file_format == "csv":
            with open(path, encoding="utf-8", newline="") as file:
                rows += csv.DictReader(file)
        elif file_format == "jsonl":
            rows += [json.loads(line) for line in path.read_text().splitlines()]
        elif file_format == "parquet":
            rows += parquet.read_table(path).to_pylist()
        else:
            packed = "GZIP" if path.name.endswith(".gz") else None
            records = tf.data.TFRecordDataset(str(path), packed).as_numpy_iterator()
            rows += [tf_examples.to_row(record) for record in records]
    return rows
