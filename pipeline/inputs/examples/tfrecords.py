"""TFRecords of `tf.train.Example`, a split each: found, and written."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import Any, NoReturn

from modules import fingerprint
from modules.config.task import TaskConfig
from pipeline.config.errors import UsageError
from pipeline.inputs.examples import splits
from pipeline.inputs.examples.spans import Span
from pipeline.inputs.examples.splits import Rows

_FILE = "data-00000-of-00001.tfrecord.gz"
_GZIP_MAGIC = b"\x1f\x8b\x08"


@dataclasses.dataclass(frozen=True)
class ExamplesDirectory:
    """TFRecords of `tf.train.Example`, a split each.

    Attributes:
      directory: Where they are.
      patterns: File pattern of each split, relative to the directory.
      span: Which of the source's spans they are; None where it has none.
    """

    directory: str
    patterns: dict[str, str]
    span: Span | None = None

    @property
    def input_base(self) -> str:
        """The directory that `input_patterns` are relative to."""
        return self.span.base if self.span else self.directory

    @property
    def input_patterns(self) -> dict[str, str]:
        """File pattern of each split as ExampleGen takes it, with `{SPAN}` in it."""
        if self.span is None:
            return self.patterns
        return {
            split: f"{self.span.pattern}/{pattern}"
            for split, pattern in self.patterns.items()
        }


def find_examples(source: str) -> ExamplesDirectory:
    """Finds the TFRecord splits of a directory.

    Args:
      source: A directory, local or remote, with a folder a split (`train/`, what
        `prepare-data` writes), or with files whose names start with the split's
        (`train.tfrecord`, `train-00000-of-00002.tfrecord.gz`) or end with it
        (`MRPC_train.tf_record`).

    Raises:
      UsageError: A required split is missing, a split has two names, or files are not
        what they are called.
    """
    patterns: dict[str, str] = {}
    for name, split in splits.SPLIT_NAMES.items():
        for pattern in _find_patterns(source, name):
            if split in patterns:
                _refuse_both(source, split, patterns[split], pattern)
            patterns[split] = pattern
    splits.require_splits(source, patterns, "*.tfrecord*")
    for pattern in patterns.values():
        _check_compression(_glob(source, pattern))
    return ExamplesDirectory(source, patterns)


def write_records(rows: Rows, directory: Path, task: TaskConfig) -> int:
    """Writes rows as Examples of the task's columns, and no others.

    Args:
      rows: Where each row stands, and its fields by column.
      directory: A new directory.
      task: Names the columns; text becomes bytes, a class int64, a score float32 and
        the id int64, which counts the rows where there is none.

    Returns:
      The number of examples.

    Raises:
      UsageError: A label or an id is not one.
    """
    import tensorflow as tf

    directory.mkdir(parents=True)
    count = 0
    with tf.io.TFRecordWriter(str(directory / _FILE), options="GZIP") as writer:
        for count, (where, row) in enumerate(rows, start=1):
            number = _id(row.get(task.id_column), count, where, task)
            features = {column: _text(tf, row[column]) for column in task.text_columns}
            features[task.label_column] = _label(
                tf, row[task.label_column], where, task
            )
            features[task.id_column] = _int64(tf, number)
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    return count


def list_examples(examples: ExamplesDirectory, split: str) -> list[str]:
    """Returns the paths of a split's files."""
    return _glob(examples.directory, examples.patterns[split])


def _glob(source: str, pattern: str) -> list[str]:
    if "://" not in source:
        # `glob` of TensorFlow would read a directory's name as a pattern too.
        return sorted(str(path) for path in Path(source).glob(pattern))
    from tensorflow.io import gfile

    return sorted(gfile.glob(f"{source}/{pattern}"))


def _find_patterns(source: str, name: str) -> list[str]:
    # A dot or a dash must follow: `eval` is not the start of `eval_mismatched`.
    patterns = (f"{name}/*.tf*record*", f"{name}[-.]*tf*record*")
    matching = [pattern for pattern in patterns if _glob(source, pattern)]
    return matching + [
        os.path.basename(p) for p in _glob(source, f"*_{name}.tf*record*")
    ]


def _refuse_both(source: str, split: str, *patterns: str) -> NoReturn:
    paths = [_glob(source, pattern)[0] for pattern in patterns]
    names = " and ".join(path.removeprefix(f"{source}/") for path in paths)
    raise UsageError(
        f"data {source} has {names}, all of the split {split}; keep one of them in "
        "the directory"
    )


def _check_compression(paths: list[str]) -> None:
    # Who reads them goes by the name, and says `corrupted record` where it is wrong.
    for path in paths:
        with fingerprint.open_file(path) as file:
            is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        if is_gzip != path.endswith(".gz"):
            state = "gzipped" if is_gzip else "not gzipped"
            raise UsageError(f"{path} is {state}; .gz must end its name if it is")


def _label(tf: Any, text: str, where: str, task: TaskConfig) -> Any:
    if task.classes is None:
        return tf.train.Feature(
            float_list=tf.train.FloatList(value=[_score(text, where, task)])
        )
    if text in task.classes:
        return _int64(tf, task.classes.index(text))
    try:
        return _int64(tf, int(text))  # whether there is such a class, the schema says
    except ValueError as error:
        raise UsageError(
            f"{where}: {task.label_column} is {text!r}; allowed are "
            f"0 to {len(task.classes) - 1} and {', '.join(task.classes)}"
        ) from error


def _score(text: str, where: str, task: TaskConfig) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        low, high = task.label_range or (None, None)
        raise UsageError(
            f"{where}: {task.label_column} is {text!r}; allowed are numbers from "
            f"{low} to {high}"
        )
    return score  # whether it is within its range, the schema says


def _id(text: str | None, count: int, where: str, task: TaskConfig) -> int:
    if text is None:
        return count - 1
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(
            f"{where}: {task.id_column} is {text!r}, not a whole number; name another "
            "column with task.id_column, or a new one to have the rows counted"
        ) from error


def _text(tf: Any, value: str) -> Any:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))


def _int64(tf: Any, value: int) -> Any:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
