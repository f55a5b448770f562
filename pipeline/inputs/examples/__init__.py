"""Labelled examples as TFRecords, from text or from TFDS."""

from pipeline.inputs.examples.preparation import prepare, resolve_examples
from pipeline.inputs.examples.tables import find_tables, read_table
from pipeline.inputs.examples.tfrecords import (
    ExamplesDirectory,
    find_examples,
    list_examples,
)

__all__ = [
    "ExamplesDirectory",
    "find_examples",
    "find_tables",
    "list_examples",
    "prepare",
    "read_table",
    "resolve_examples",
]
