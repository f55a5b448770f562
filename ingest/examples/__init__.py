"""Labelled examples as TFRecords, from files of any format or from TFDS."""

from ingest import remote as remote  # registers the readers of remote files
from ingest.examples.preparation import prepare, resolve_examples
from ingest.examples.sources import find_source, read_split
from ingest.examples.tfrecords import ExamplesDirectory, find_examples, list_examples

__all__ = [
    "ExamplesDirectory",
    "find_examples",
    "find_source",
    "list_examples",
    "prepare",
    "read_split",
    "resolve_examples",
]
