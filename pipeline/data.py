"""Labelled pairs as TFRecords, from the text that people have or from TFDS."""

from __future__ import annotations

import csv
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pipeline import fingerprint
from pipeline.errors import UsageError
from pipeline.paths import OutputPaths
from pipeline.task import TaskConfig

SPLITS = ("train", "eval", "test")
REQUIRED_SPLITS = ("train", "eval")
TFDS_PREFIX = "tfds:"
# What others call the split that models are chosen on.
_SPLIT_NAMES = {"validation": "eval", "dev": "eval", "eval": "eval"} | {
    split: split for split in ("train", "test")
}
# The header that GLUE's MRPC archive has in place of TFDS's.
_GLUE_MRPC_HEADER = {
    "Quality": "label",
    "#1 String": "sentence1",
    "#2 String": "sentence2",
}
_RECORDS = "data-00000-of-00001.tfrecord.gz"

Row = dict[str, str]
Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class ExamplesDirectory:
    """TFRecords of `tf.train.Example`, a split each.

    Attributes:
      directory: Where they are.
      patterns: File pattern of each split, relative to the directory.
    """

    directory: str
    patterns: dict[str, str]


def find_examples(source: str) -> ExamplesDirectory:
    """Finds the TFRecord splits of a directory.

    Args:
      source: A directory with a folder a split (`train/`, what `prepare-data`
        writes), or with files whose names start with the split's.

    Raises:
      UsageError: A required split is missing.
    """
    directory = Path(source)
    patterns = {}
    for name, split in _SPLIT_NAMES.items():
        if any((directory / name).glob("*.tfrecord*")):
            patterns[split] = f"{name}/*.tfrecord*"
        elif any(directory.glob(f"{name}*.tfrecord*")):
            patterns[split] = f"{name}*.tfrecord*"
    _require_splits(source, patterns, "*.tfrecord*")
    return ExamplesDirectory(source, patterns)


def resolve_examples(
    source: str, task: TaskConfig, paths: OutputPaths, report: Report = lambda _: None
) -> ExamplesDirectory:
    """Settles where a run's Examples are; text and TFDS become TFRecords first.

    Args:
      source: A directory of TFRecord or TSV splits, or `tfds:NAME`.
      task: Names the columns and classes.
      paths: Where TFRecords are written. What was made of the same text before is
        used again.
      report: Called with what a person would want to know.

    Raises:
      UsageError: The source cannot be found or read.
    """
    if source.startswith(TFDS_PREFIX):
        key = fingerprint.of_text(source, task.model_dump_json())
    else:
        files = find_tables(source)
        if not files:
            return find_examples(source)
        key = fingerprint.of_files(files.values())
        key = fingerprint.of_text(key, task.model_dump_json())
    key = fingerprint.of_text(key, fingerprint.of_code(__name__))
    destination = paths.examples(key[:16])
    if not destination.exists():
        prepare(source, str(destination), task, report)
    return find_examples(str(destination))


def prepare(
    source: str, destination: str, task: TaskConfig, report: Report = lambda _: None
) -> dict[str, int]:
    """Writes pairs as TFRecords, a folder a split.

    Args:
      source: A directory of TSV splits, or `tfds:NAME`.
      destination: A directory that does not exist yet; it appears when it is whole.
      task: Names the columns and classes.
      report: Called with what a person would want to know.

    Returns:
      The number of examples of each split.

    Raises:
      UsageError: The source cannot be read, a row is malformed, or the destination
        exists.
    """
    target = Path(destination)
    if target.exists():
        raise UsageError(f"{destination} exists; name a new directory")
    if source.startswith(TFDS_PREFIX):
        tables = _tfds_tables(source.removeprefix(TFDS_PREFIX), task)
    else:
        tables = {
            split: _labelled_rows(split, path, task, report)
            for split, path in find_tables(source).items()
        }
        _require_splits(source, tables, "*.tsv")
    incomplete = target.with_name(f".{target.name}.incomplete")
    shutil.rmtree(incomplete, ignore_errors=True)
    try:
        counts = {}
        for split, rows in tables.items():
            if rows is not None:
                counts[split] = _write(rows, incomplete / split / _RECORDS, task)
                report(f"{split}: {counts[split]} examples")
        incomplete.rename(target)
    finally:
        shutil.rmtree(incomplete, ignore_errors=True)
    return counts


def find_tables(source: str) -> dict[str, Path]:
    """Returns the TSV file of each split in a directory.

    Raises:
      UsageError: The directory does not exist.
    """
    directory = Path(source)
    if not directory.is_dir():
        raise UsageError(
            f"data {source} is not a directory; give one with train.tsv and eval.tsv "
            f"(or TFRecords of the same splits), or {TFDS_PREFIX}NAME"
        )
    paths = ((s, directory / f"{name}.tsv") for name, s in _SPLIT_NAMES.items())
    found = {split: path for split, path in paths if path.is_file()}
    return {split: found[split] for split in SPLITS if split in found}


def read_table(path: Path) -> Iterator[tuple[int, Row]]:
    """Reads a TSV file as GLUE ships it: with a header, and no quoting.

    Args:
      path: The file, UTF-8.

    Yields:
      Line numbers and rows by column name.

    Raises:
      UsageError: A row has more or fewer fields than the header.
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        lines = (line.rstrip("\r\n") for line in file)
        table = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        try:
            header = [_GLUE_MRPC_HEADER.get(name, name) for name in next(table, [])]
            for fields in table:
                if len(fields) != len(header):
                    raise UsageError(
                        f"{path}:{table.line_num}: {len(fields)} fields, the header "
                        f"has {len(header)}"
                    )
                yield table.line_num, dict(zip(header, fields, strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise UsageError(f"{path}:{table.line_num + 1}: {error}") from error


def _labelled_rows(
    split: str, path: Path, task: TaskConfig, report: Report
) -> Iterator[tuple[str, Row]] | None:
    first = next(read_table(path), None)
    columns = first[1].keys() if first else ()
    wanted = {"task.text_columns": task.text_columns}
    if split in REQUIRED_SPLITS:
        wanted["task.label_column"] = [task.label_column]
    for setting, names in wanted.items():
        missing = [name for name in names if name not in columns]
        if missing:
            raise UsageError(
                f"{path} has no column {', '.join(missing)}; it has "
                f"{', '.join(columns) or 'no rows'} ({setting} names them)"
            )
    if task.label_column not in columns:
        report(f"{path.name} has no column {task.label_column}: left out")
        return None
    return ((f"{path}:{line}", row) for line, row in read_table(path))


def _tfds_tables(
    name: str, task: TaskConfig
) -> dict[str, Iterator[tuple[str, Row]] | None]:
    import tensorflow_datasets as tfds

    try:
        splits = tfds.load(name)
    except tfds.core.registered.DatasetNotFoundError as error:
        raise UsageError(f"data {TFDS_PREFIX}{name}: TFDS has no such data") from error
    except Exception as error:  # whatever the network's many layers raise
        raise UsageError(
            f"data {TFDS_PREFIX}{name} cannot be loaded ({type(error).__name__}: "
            f"{str(error)[:200]}). Without a network, give a directory of its TSV "
            "files with --data DIR"
        ) from error

    def rows(split: str) -> Iterator[tuple[str, Row]]:
        for index, example in enumerate(tfds.as_numpy(splits[split])):
            yield (
                f"{name} {split} {index}",
                {
                    key: value.decode() if isinstance(value, bytes) else str(value)
                    for key, value in example.items()
                },
            )

    tables: dict[str, Iterator[tuple[str, Row]] | None] = {}
    for split in splits:
        if split in _SPLIT_NAMES:
            _, first = next(rows(split))
            # GLUE's test splits carry -1 for a label that is kept secret.
            labelled = first.get(task.label_column) not in (None, "-1")
            tables[_SPLIT_NAMES[split]] = rows(split) if labelled else None
    return tables


def _write(rows: Iterable[tuple[str, Row]], path: Path, task: TaskConfig) -> int:
    import tensorflow as tf

    path.parent.mkdir(parents=True)
    count = 0
    with tf.io.TFRecordWriter(str(path), options="GZIP") as writer:
        for count, (where, row) in enumerate(rows, start=1):
            texts = {
                column: _bytes_feature(tf, row[column]) for column in task.text_columns
            }
            numbers = {
                task.label_column: _label(row[task.label_column], where, task),
                task.id_column: _id(row.get(task.id_column), count, where, task),
            }
            features = texts | {
                column: tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
                for column, number in numbers.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    return count


def _bytes_feature(tf, text: str):  # type: ignore[no-untyped-def]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))


def _label(text: str, where: str, task: TaskConfig) -> int:
    if text in task.classes:
        return task.classes.index(text)
    try:
        return int(text)  # whether there is such a class, the schema says
    except ValueError as error:
        raise UsageError(
            f"{where}: {task.label_column} is {text!r}; allowed are "
            f"0 to {len(task.classes) - 1} and {', '.join(task.classes)}"
        ) from error


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


def _require_splits(source: str, found: Iterable[str], pattern: str) -> None:
    missing = [split for split in REQUIRED_SPLITS if split not in set(found)]
    if missing:
        names = sorted(os.listdir(source)) if os.path.isdir(source) else []
        raise UsageError(
            f"data {source} has no split {', '.join(missing)} ({pattern}); "
            f"it holds {', '.join(names[:8]) or 'nothing'}"
        )
