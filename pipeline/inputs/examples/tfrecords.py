"""TFRecords of `tf.train.Example`, one set of files for each split."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path

from modules import fingerprint
from modules.config.task import TaskConfig
from pipeline.config.errors import UsageError
from pipeline.inputs.examples import splits, tf_examples
from pipeline.inputs.examples.spans import Span
from pipeline.inputs.examples.splits import Row, Rows

_FILE = "data-00000-of-00001.tfrecord.gz"
_GZIP_MAGIC = b"\x1f\x8b\x08"


@dataclasses.dataclass(frozen=True)
class ExamplesDirectory:
    """A directory of TFRecords.

    Attributes:
      directory: Its path.
      patterns: File pattern of each split, relative to the directory.
      span: The span of the source; None if the source has no spans.
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
        """File pattern of each split for ExampleGen, with `{SPAN}` in it."""
        if self.span is None:
            return self.patterns
        return {
            split: f"{self.span.pattern}/{pattern}"
            for split, pattern in self.patterns.items()
        }


def find_examples(source: str) -> ExamplesDirectory:
    """Finds the TFRecord splits of a directory.

    Args:
      source: A directory, local or remote, with a folder for each split (`train/`, as
        `prepare-data` writes), or with files whose names start with the split's
        (`train.tfrecord`, `train-00000-of-00002.tfrecord.gz`) or end with it
        (`MRPC_train.tf_record`).

    Raises:
      UsageError: A required split is missing, a split has two names, or the name of a
        file does not fit its compression.
    """
    patterns: dict[str, str] = {}
    for name, split in splits.SPLIT_NAMES.items():
        for pattern in _find_patterns(source, name):
            if split in patterns:
                paths = [_glob(source, p)[0] for p in (patterns[split], pattern)]
                names = " and ".join(p.removeprefix(f"{source}/") for p in paths)
                raise UsageError(
                    f"data {source} has {names}, all of the split {split}; keep one of "
                    "them in the directory"
                )
            patterns[split] = pattern
    splits.require_splits(source, patterns, "*.tfrecord*")
    for pattern in patterns.values():
        for path in _glob(source, pattern):
            _check_compression(path)
    return ExamplesDirectory(source, patterns)


def write_records(rows: Rows, directory: Path, task: TaskConfig) -> int:
    """Writes rows as Examples of the task's columns, without other columns.

    Args:
      rows: Locations and rows.
      directory: A new directory.
      task: Names the columns; text becomes bytes, a class int64, a score and a weight
        float32 and the id int64. Rows without an id are numbered.

    Returns:
      The number of examples.

    Raises:
      UsageError: A label, an id or a weight is malformed.
    """
    import tensorflow as tf

    directory.mkdir(parents=True)
    count = 0
    with tf.io.TFRecordWriter(str(directory / _FILE), options="GZIP") as writer:
        for location, row in rows:
            label = _parse_score if task.classes is None else _parse_class
            features = {
                **{column: row[column] for column in task.text_columns},
                task.label_column: label(row[task.label_column], location, task),
                task.id_column: _parse_id(row, count, location, task),
            }
            if task.weight_column in row:
                features[task.weight_column] = _parse_weight(row, location, task)
            writer.write(tf_examples.from_row(features))
            count += 1
    return count


def list_examples(examples: ExamplesDirectory, split: str) -> list[str]:
    """Returns the paths of a split's files."""
    return _glob(examples.directory, examples.patterns[split])


def _glob(source: str, pattern: str) -> list[str]:
    if "://" not in source:
        # TensorFlow's `glob` would take the directory's name as a pattern too.
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


def _check_compression(path: str) -> None:
    # ExampleGen goes by the name, and reports a wrong one as a corrupted record.
    with fingerprint.open_file(path) as file:
        is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    if is_gzip != path.endswith(".gz"):
        state = "gzipped" if is_gzip else "not gzipped"
        raise UsageError(f"{path} is {state}; .gz must end its name if it is")


def _parse_class(text: str, location: str, task: TaskConfig) -> int:
    assert task.classes is not None
    if text in task.classes:
        return task.classes.index(text)
    try:
        return _parse_int64(text)  # the data gate checks the range
    except ValueError as error:
        raise UsageError(
            f"{location}: {task.label_column} is {text!r}; allowed are "
            f"0 to {len(task.classes) - 1} and {', '.join(task.classes)}"
        ) from error


def _parse_int64(text: str) -> int:
    number = int(text)
    if not -(1 << 63) < number < 1 << 63:  # `from_row` would write a float
        raise ValueError(f"{text} has more than 64 bits")
    return number


def _parse_score(text: str, location: str, task: TaskConfig) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        low, high = task.label_range or (None, None)
        raise UsageError(
            f"{location}: {task.label_column} is {text!r}; allowed are numbers from "
            f"{low} to {high}"
        )
    return score  # the data gate checks the range


def _parse_weight(row: Row, location: str, task: TaskConfig) -> float:
    assert task.weight_column is not None
    text = row[task.weight_column]
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 <= weight < math.inf:
        raise UsageError(
            f"{location}: {task.weight_column} is {text!r}; allowed are numbers from 0"
        )
    return weight


def _parse_id(row: Row, default: int, location: str, task: TaskConfig) -> int:
    text = row.get(task.id_column)
    if text is None:
        return default
    try:
        return _parse_int64(text)
    except ValueError as error:
        raise UsageError(
            f"{location}: {task.id_column} is {text!r}, not a whole number; name "
            "another column with task.id_column, or a new one to number the rows"
        ) from error
