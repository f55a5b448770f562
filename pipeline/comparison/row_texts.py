"""The texts of a split's rows, from the Examples of a run."""

from __future__ import annotations

from modules import environment
from modules.config.task import TaskConfig
from pipeline.inputs.examples import tf_examples


def read(examples: str, split: str, task: TaskConfig) -> dict[int, tuple[str, ...]]:
    """Returns the texts of each row by its id.

    Args:
      examples: The Examples artifact.
      split: One of its splits.
      task: Names the columns.

    Returns:
      Nothing if the examples hold tokens, or were deleted.
    """
    if task.is_tokenized:
        return {}
    environment.set_up(quiet=True)
    import tensorflow as tf

    from modules import files

    paths = files.list_records([f"{examples}/Split-{split}/*"])
    texts = {}
    for serialized in tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator():
        row = tf_examples.to_row(serialized)
        # An empty feature is None.
        values = tuple(str(row.get(column) or "") for column in task.text_columns)
        texts[row[task.id_column]] = values
    return texts
