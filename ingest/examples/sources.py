"""The files of a data set, by split."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contracts import fingerprint
from contracts.errors import UsageError
from contracts.settings.data import DataConfig, FileFormat
from contracts.storage.files import refuse_missing_shards
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from ingest.examples import hugging_face_datasets, splits, tf_examples
from ingest.examples.data_card import CARD_FILE
from ingest.examples.splits import LocatedRow, Row
from ingest.examples.tfrecords import RECORDS
from ingest.rows import class_folders, readers
from ingest.rows.class_folders import ClassFolders
from ingest.rows.delimited import LeftOutError
from ingest.rows.formats import (
    FOLDERS,
    FORMATS,
    SPREADSHEETS,
    TFRECORD,
    format_of,
    stem_of,
)
from ingest.rows.row_errors import Location, RowError
from ingest.rows.row_file import RowFile
from ingest.rows.spool import Spool

# The longest first: `eval_mismatched` is not a shard of `eval`.
_NAMES = sorted(splits.SPLIT_NAMES, key=len, reverse=True)
# `train`, and shards such as `train-00000-of-00002` and `train.1`.
_STEM = re.compile(rf"({'|'.join(_NAMES)})([-.].*)?")
# `train`, and `20news-bydate-train`.
_FOLDER = re.compile(rf"(?:.*[-_.])?({'|'.join(_NAMES)})")
_TEXT_FORMATS = tuple(f for f in FORMATS if f != TFRECORD)
# Names of splits as parts of longer file names.
_LIKE_A_SPLIT = re.compile(
    r"(?<![a-z])(train|training|test|testing|val|valid|validation|dev|eval)(?![a-z])",
    re.IGNORECASE,
)
# Extensions of other files that are often next to data.
_NO_DATA = {"", ".md", ".txt", ".yaml", ".yml", ".pdf", ".html", ".py", ".ipynb"}
_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class Source:
    """The files of a data set.

    Attributes:
      location: What the user named.
      files: The files of each split in their order. A source without splits has the
        one split None.
      left_out: Names of splits and files that are not read.
      kept: Rows that were read before and are on disk, by split: path, number and row.
    """

    location: str
    files: dict[str | None, list[RowFile | ClassFolders]]
    left_out: tuple[str, ...] = ()
    kept: dict[str | None, Spool[tuple[str, int, Row | RowError]]] = dataclasses.field(
        default_factory=dict
    )

    @property
    def all_files(self) -> list[RowFile | ClassFolders]:
        """The files of all splits."""
        return [file for files in self.files.values() for file in files]

    @property
    def has_splits(self) -> bool:
        """Whether the files belong to splits."""
        return None not in self.files

    @property
    def sha256(self) -> str:
        """SHA-256 of the names and contents of all files."""
        return fingerprint.of_hashes({f.path: f.sha256 for f in self.all_files})

    def describe_reading(self) -> list[str]:
        """Returns a line with the files of each format and dialect."""
        ways: dict[str, list[str]] = {}
        for file in self.all_files:
            ways.setdefault(file.describe_dialect(), []).append(Path(file.path).name)
        lines = [f"{_join(names)}: {way}" for way, names in ways.items()]
        if self.left_out:
            lines.append(f"{_join(self.left_out)}: no known split or format, left out")
        return lines

    def describe(self, split: str | None) -> str:
        """Returns the file of a split, or the folder of its files."""
        files = self.files[split]
        return files[0].path if len(files) == 1 else str(Path(files[0].path).parent)

    def read(
        self, split: str | None, task: TaskConfig | None = None
    ) -> Iterator[LocatedRow]:
        """Reads the rows of a split.

        Args:
          split: One of `files`.
          task: Its GLUE task decides which layout of an archive a file may have.

        Yields:
          Locations, and rows by column or the reason why one cannot be read.
        """
        if split in self.kept:
            for path, number, kept in self.kept[split]:
                yield Location(path, number), kept
            return
        for file in self.files[split]:
            for location, row in file.read(task):
                yield location, _decode(row) if isinstance(row, bytes) else row

    def read_and_keep(self, split: str | None) -> Iterator[LocatedRow]:
        """Reads the rows of a split, and keeps them for the next `read`."""
        spool: Spool[tuple[str, int, Row | RowError]] = Spool()
        for location, row in self.read(split):
            spool.append((*location, row))
            yield location, row
        self.kept[split] = spool


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")


def open_source(
    location: str,
    paths: Mapping[str | None, Sequence[str]],
    settings: DataConfig,
    left_out: Sequence[str] = (),
) -> Source:
    """Returns the source of files whose splits are known.

    Raises:
      UsageError: The name of a file shows no format.
    """
    files: dict[str | None, list[RowFile | ClassFolders]] = {
        split: [RowFile(path, _format_of(path, settings), settings) for path in shards]
        for split, shards in paths.items()
    }
    return Source(location, files, tuple(left_out))


def _format_of(path: str, settings: DataConfig) -> FileFormat:
    if path.lower().endswith(SPREADSHEETS):
        raise UsageError(
            path,
            "it is a spreadsheet",
            advice="save it as CSV (UTF-8)",
            name="E-format-unknown",
        )
    if settings.format == FOLDERS:
        raise UsageError(
            "data.format",
            f"{FOLDERS}, but {path} is a file",
            advice="give the folder that has a folder of text files for each class",
            name="E-data-not-found",
        )
    file_format = settings.format or format_of(path)
    if file_format is None:
        raise UsageError(
            path,
            "its name shows no format",
            ", ".join(f".{name}" for name in FORMATS),
            "rename it, or set `data.format`",
            name="E-format-unknown",
        )
    return file_format


def find_source(location: str, settings: DataConfig) -> Source:
    """Finds the files of a source on this machine, except splits of TFRecords.

    Args:
      location: A file, a directory, or a folder that Hugging Face `datasets` saved. The
        directory has the files of each split (`train.csv`, shards such as
        `train-00000-of-00002.csv`, or a folder for each split), the files of a data
        set without splits, or a folder of text files for each class, in a folder for
        each split or without splits.
      settings: `format`, if it is set, is the format of all files.

    Returns:
      The source. It has no files if the directory has only TFRecords or no data.

    Raises:
      UsageError: There is no such file or directory, or two files are one split.
    """
    path = Path(location)
    if path.is_file():
        return open_source(location, {None: [location]}, settings)
    if not path.is_dir():
        raise UsageError(
            location,
            "it does not exist",
            "a file, a directory with train.csv and eval.csv (or "
            f"{', '.join(_TEXT_FORMATS[1:])}, or TFRecords of the same splits), or "
            "tfds:NAME",
            name="E-data-not-found",
        )
    if settings.format == FOLDERS:
        folders = _find_class_folders(path, settings)
        if folders is None:
            raise UsageError(
                "data.format",
                f"{FOLDERS}, but {location} has no folder with text files",
                advice="give the folder that has a folder for each class",
                name="E-data-not-found",
            )
        return folders
    saved = hugging_face_datasets.find_files(path)
    if saved is not None:
        if None in saved:
            return open_source(location, saved, settings)
        unknown = tuple(str(name) for name in saved if name not in splits.SPLIT_NAMES)
        by_split = _by_split(location, saved.items())
        return open_source(location, by_split, settings, unknown)
    files, others = _list_files(path, settings)
    named = _find_named_files(path, files, settings)
    if named:
        read = {file for _, paths in named for file in paths}
        unread = (Path(file).name for file in files if file not in read)
        by_split = _by_split(location, named)
        return open_source(location, by_split, settings, (*unread, *others))
    if any(True for pattern in (RECORDS, f"*/{RECORDS}") for _ in path.glob(pattern)):
        return Source(location, {})
    if not files:
        return _find_class_folders(path, settings) or Source(location, {})
    texts = {text.parent for text in path.glob("*/*.txt")}
    if len(texts) > 1 or any(True for _ in path.glob("train/*/*.txt")):
        raise UsageError(
            location,
            f"it has {_join([Path(file).name for file in files])}, and folders of text "
            "files, which may be classes",
            advice=f"name one file, or use `data.format={FOLDERS}`",
            name="E-split-unclear",
        )
    # Files without the names of splits must be shards of one data set.
    for file in files:
        if _LIKE_A_SPLIT.search(stem_of(file)):
            raise UsageError(
                location,
                f"it has {Path(file).name}, which looks like a split",
                advice="name the files of the splits train, eval and test (train.csv), "
                "or name one file as the source",
                name="E-split-unclear",
            )
    kinds = {os.path.splitext(file)[1].lower() for file in files}
    if len(kinds) > 1:
        raise UsageError(
            location,
            f"it has files of several kinds ({', '.join(sorted(kinds))}), which may "
            "hold the same rows",
            advice="name one of them, or move the others",
            name="E-split-unclear",
        )
    return open_source(location, {None: files}, settings, others)


def read_split(
    location: str,
    split: str,
    settings: DataConfig = readers.DEFAULTS,
    task: TaskConfig | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a split of a source.

    Args:
      location: The source; see `find_source`.
      split: The name of the split.
      settings: How the files are read.
      task: Its GLUE task decides which layout of an archive a file may have.

    Raises:
      UsageError: The source has no such split, or a row cannot be read.
    """
    source = find_source(location, settings)
    if split not in source.files:
        raise UsageError(
            location,
            f"it has no files of the split {split}",
            advice=f"give a directory with {split}.tsv",
            name="E-split-missing",
        )
    for row_location, row in source.read(split, task):
        if isinstance(row, RowError):
            if isinstance(row, LeftOutError):
                continue
            raise UsageError(
                str(row_location), str(row), name="E-rows-refused"
            ) from row
        yield row


def _find_class_folders(directory: Path, settings: DataConfig) -> Source | None:
    """Returns the texts in folders of classes, by split; None if there are none.

    The folder of a split has the folders of the classes. If it has files instead, it is
    the folder of a class.

    Raises:
      UsageError: Two folders are one split, it is unclear which folders are splits, or
        the rows for training are of one class.
    """
    location = str(directory)
    by_path: dict[str, ClassFolders] = {}
    others = []
    for entry in class_folders.list_visible(location):
        if _LIKE_A_SPLIT.search(entry.name) and os.path.isdir(entry.path):
            folders = ClassFolders(entry.path, settings)
            if folders.classes:
                by_path[entry.path] = folders
                continue
        is_unlabelled = entry.name.lower() in class_folders.UNLABELLED
        others.append(f"{entry.name} (unlabelled)" if is_unlabelled else entry.name)
    matches = {path: _FOLDER.fullmatch(Path(path).name) for path in by_path}
    named = [(match[1], [path]) for path, match in matches.items() if match]
    train: ClassFolders | None
    if named:
        unclear = [Path(path).name for path, match in matches.items() if not match]
        by_split = _by_split(location, named)
        train = by_path[by_split[TRAIN_SPLIT][0]] if TRAIN_SPLIT in by_split else None
    else:
        train = ClassFolders(location, settings)
        if not train.classes:
            return None
        # Folders of splits with files, or with other names.
        looks_like = [name for name in train.classes if _LIKE_A_SPLIT.search(name)]
        unclear = looks_like if len(looks_like) == len(train.classes) else []
        by_split = {None: [location]}
        by_path, others = {location: train}, []
    if unclear:
        raise UsageError(
            location,
            f"it has {_join(unclear)}, which looks like a split",
            advice="name the folders of the splits train, eval and test, and put a "
            "folder of text files for each class into each of them (train/CLASS/FILE)",
            name="E-split-unclear",
        )
    if train and len(train.classes) == 1:
        (name,) = train.classes
        raise UsageError(
            train.path,
            f"it has text files in the folder {name} only, which would be the only "
            "class",
            advice="add the folders of the others, or give "
            f"{train.path}/{name} if it has the folders of the classes",
            name="E-data-not-found",
        )
    return Source(
        location,
        {split: [by_path[path] for path in paths] for split, paths in by_split.items()},
        tuple(others),
    )


def _find_named_files(
    directory: Path, files: list[str], settings: DataConfig
) -> list[tuple[str, list[str]]]:
    """Returns the files by the name of their split, each set of shards in an entry."""
    named: dict[tuple[str, str], list[str]] = {}
    for path in files:
        match = _STEM.fullmatch(stem_of(path))
        if match:
            name, shard = match.groups()
            # Only shards of one format and name may be several files of a split.
            unique = path if shard is None else str(format_of(path))
            named.setdefault((name, unique), []).append(path)
    for name in _NAMES:
        shards, _ = _list_files(directory / name, settings)
        if shards:
            named[name, str(directory / name)] = shards
    return [(name, paths) for (name, _), paths in named.items()]


def _list_files(
    directory: Path, settings: DataConfig
) -> tuple[list[str], tuple[str, ...]]:
    """Returns the paths of the files of rows, and the names of other files."""
    files, others = [], []
    entries = sorted(directory.iterdir()) if directory.is_dir() else []
    for path in entries:
        is_hidden = path.name.startswith((".", "_")) or path.name == CARD_FILE
        if is_hidden or not path.is_file():
            continue
        file_format = settings.format or format_of(str(path))
        if file_format in _TEXT_FORMATS:
            files.append(str(path))
        elif file_format is None and path.suffix.lower() not in _NO_DATA:
            others.append(path.name)
    refuse_missing_shards(files, ["*"])
    return files, tuple(others)


def _by_split(
    location: str, named: Iterable[tuple[str | None, list[str]]]
) -> dict[str | None, list[str]]:
    by_split: dict[str | None, list[str]] = {}
    for name, files in named:
        split = splits.SPLIT_NAMES.get(name or "")
        if split is None:
            continue
        if split in by_split:
            first, second = (
                str(Path(paths[0]).relative_to(location))
                for paths in (by_split[split], files)
            )
            raise splits.duplicate_error(
                location, [first, second], f"the split {split}"
            )
        by_split[split] = files
    return {split: by_split[split] for split in splits.SPLITS if split in by_split}


def _decode(serialized: bytes) -> dict[str, Any] | RowError:
    try:
        return tf_examples.to_row(serialized)
    except RowError as error:
        return error
