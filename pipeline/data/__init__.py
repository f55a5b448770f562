"""Labelled examples as TFRecords, from the text that people have or from TFDS."""

from pipeline.data.preparation import prepare, resolve_examples
from pipeline.data.records import ExamplesDirectory, find_examples, list_examples
from pipeline.data.splits import REQUIRED_SPLITS, SPLITS
from pipeline.data.tables import find_tables, read_table

__all__ = [
    "REQUIRED_SPLITS",
    "SPLITS",
    "ExamplesDirectory",
    "find_examples",
    "find_tables",
    "list_examples",
    "prepare",
    "read_table",
    "resolve_examples",
]
