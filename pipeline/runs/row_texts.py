"""Reads the texts of a split from the Examples of a run."""

from __future__ import annotations

from ingest.examples import tf_examples
from modules import environment, files
from modules.config.task import TaskConfig


def read(examples: str, split: str, task: TaskConfig) -> dict[int, tuple[str, ...]]:
    """Returns the texts of each row by its id.

    Args:
      examples: The Examples artifact.
      split: One of its splits.
      task: Names the columns.

    Returns:
      An empty dict if the Examples hold tokens, or were deleted.
    """
    if task.is_tokenized:
        return {}
    environment.set_up(quiet=True)
    import tensorflow as tf  # takes seconds, and not every comparison reads texts

    # The layout of TFX's artifacts.
    paths = files.list_records([f"{examples}/Split-{split}/*"])
    texts = {}
    for serialized in tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator():
        row = tf_examples.to_row(serialized)
        # `to_row` returns None for an empty feature.
        values = tuple(str(row.get(column) or "") for column in task.text_columns)
        texts[row[task.id_column]] = values
    return texts
