"""Labelled examples as TFRecords, from files of any format or from TFDS."""

from pipeline.inputs.examples.preparation import prepare, resolve_examples
from pipeline.inputs.examples.sources import find_source, read_split
from pipeline.inputs.examples.tfrecords import (
    ExamplesDirectory,
    find_examples,
    list_examples,
)

__all__ = [
    "ExamplesDirectory",
    "find_examples",
    "find_source",
    "list_examples",
    "prepare",
    "read_split",
    "resolve_examples",
]
