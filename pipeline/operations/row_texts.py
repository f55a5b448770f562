"""Reads the texts of a split from the Examples of a run."""

from __future__ import annotations

from contracts.errors import UsageError
from contracts.storage import files
from contracts.task.definition import NO_ID, TaskConfig
from ingest.examples import tf_examples
from modules import environment
from pipeline.operations.record import RESTORE


def read(examples: str, split: str, task: TaskConfig) -> dict[int, tuple[str, ...]]:
    """Returns the texts of each row by its id, except rows whose id is not unique.

    Returns:
      An empty dict if the Examples hold tokens, or were deleted.

    Raises:
      UsageError: A file of the Examples is damaged.
    """
    if task.is_tokenized:
        return {}
    environment.set_up(quiet=True)
    import tensorflow as tf  # takes seconds, and not every comparison reads texts

    # The layout of TFX's artifacts.
    try:
        paths = files.list_records([f"{examples}/Split-{split}/*"])
    except files.MissingRecordsError:
        return {}
    texts: dict[int, tuple[str, ...]] = {}
    repeated = set()
    try:
        for serialized in tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator():
            row = tf_examples.to_row(serialized)
            # `to_row` returns None for an empty feature.
            values = tuple(str(row.get(column) or "") for column in task.text_columns)
            row_id = row.get(task.id_column, NO_ID)
            if texts.setdefault(row_id, values) != values:
                repeated.add(row_id)
    except tf.errors.OpError as error:
        raise UsageError(
            examples,
            f"the texts cannot be read ({type(error).__name__})",
            advice=f"{RESTORE}, or compare without texts, with `rows=0` or "
            "`with_texts=False`",
            name="E-record-damaged",
        ) from error
    return {row_id: row for row_id, row in texts.items() if row_id not in repeated}
