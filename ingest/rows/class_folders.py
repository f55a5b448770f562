"""A folder with a subfolder of text files for each class.

aclImdb and 20 newsgroups have this layout, which Keras' `text_dataset_from_directory`
and scikit-learn's `load_files` read.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contracts import wording
from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest.rows import text_lines
from ingest.rows.encoding_advice import advise
from ingest.rows.formats import FOLDERS, format_of
from ingest.rows.row_errors import DAMAGE, EncodingError, Location, RowError
from ingest.rows.row_file import columns_error

TEXT, LABEL = "text", "label"  # the columns
# Names of folders without labels, as aclImdb's.
UNLABELLED = {"unsup", "unsupervised", "unlabeled", "unlabelled"}
_SYSTEM = {"thumbs.db", "desktop.ini"}  # that Windows writes into folders
_MOST_BYTES = 1 << 24
_SHOWN = 8


class ClassFolders:
    """The texts of a folder with a subfolder for each class, as rows.

    Each file is a text, also in deeper folders of the folder of a class. Files of the
    formats of tables are only read if `data.format` is `folders`.

    Args:
      path: The folder.
      settings: The encoding and the format.

    Attributes:
      path: See above.
      file_format: The name of this layout.
      classes: The paths of the files by class.
    """

    def __init__(self, path: str, settings: DataConfig) -> None:
        if settings.columns:
            raise columns_error(path, FOLDERS)
        self.path = path
        self.file_format = FOLDERS
        self.classes: dict[str, list[str]] = {}
        self._settings = settings
        self._left_out: list[str] = []
        self._sha256: str | None = None
        others = 0
        for entry in list_visible(path):
            if not _is_directory(entry):
                self._left_out.append(_show(entry.name))
                continue
            files = _walk(entry.path)
            texts = [
                file
                for file in files
                if settings.format == FOLDERS or format_of(file) is None
            ]
            if _show(entry.name) != entry.name:
                raise UsageError(
                    got=f"data {path} has the folder {_show(entry.name)}, whose name has "
                    "bytes that are not Unicode text; rename it, as it names a class",
                    name="E-data-not-found",
                )
            if entry.name.lower() in UNLABELLED:
                self._left_out.append(
                    f"{entry.name} ({wording.count(len(files), 'unlabelled file')})"
                )
            elif texts:
                self.classes[entry.name] = texts
                others += len(files) - len(texts)
            else:
                reason = "only tables" if files else "empty"
                self._left_out.append(f"{entry.name} ({reason})")
        if others:
            self._left_out.append(f"{others:,} tables in the folders of classes")

    @property
    def sha256(self) -> str:
        """SHA-256 of the classes, names and contents of the files."""
        if self._sha256 is None:
            for _ in self._read():
                pass
        assert self._sha256 is not None
        return self._sha256

    def describe_dialect(self) -> str:
        """Returns the number of texts and the classes, and what is left out."""
        count = sum(map(len, self.classes.values()))
        names = [*self.classes]
        folders = wording.count(len(names), "folder")
        text = f"{FOLDERS}: {wording.count(count, 'text file')} in {folders}, "
        text += _join(names)
        if self._left_out:
            text += f"; left out: {_join(self._left_out)}"
        return text

    def read_columns(self) -> list[str]:
        """Returns the names of the columns."""
        return [TEXT, LABEL]

    def read(
        self, task: TaskConfig | None = None
    ) -> Iterator[tuple[Location, dict[str, str] | RowError]]:
        """Yields the location of each file, and its text and class or its problem.

        The first error about the encoding has advice from all of the files, which are
        read again for it.

        Raises:
          UsageError: A file changed since it was hashed.
        """
        is_advised = False
        for label, path, content in self._read():
            row: dict[str, str] | RowError
            try:
                if isinstance(content, RowError):
                    raise content
                row = {TEXT: _decode(content, self._settings.encoding), LABEL: label}
            except EncodingError as error:
                advice = "" if is_advised else f". {self._advise()}"
                row, is_advised = EncodingError(f"{error}{advice}"), True
            except RowError as error:
                row = error
            yield Location(_show(path), 1), row

    def _read(self) -> Iterator[tuple[str, str, bytes | RowError]]:
        """Yields the class, the path and the bytes of each file, and hashes them."""
        digest = hashlib.sha256()
        for label, paths in self.classes.items():
            for path in paths:
                content: bytes | RowError
                try:
                    content = _read_bytes(path)
                    hashed = content
                except RowError as error:
                    content, hashed = error, str(error).encode()
                digest.update(os.fsencode(os.path.relpath(path, self.path)) + b"\0")
                digest.update(hashlib.sha256(hashed).digest())
                yield label, path, content
        sha256 = digest.hexdigest()
        if self._sha256 not in (None, sha256):
            raise UsageError(
                got=f"{self.path} changed while it was read; run again",
                name="E-data-changed",
            )
        self._sha256 = sha256

    def _advise(self) -> str:
        with tempfile.TemporaryFile() as joined:
            for _, _, content in self._read():
                if not isinstance(content, RowError):
                    joined.write(content + b"\n")
            joined.seek(0)
            return advise(joined, self._settings.encoding)


def list_visible(directory: str) -> list[os.DirEntry[str]]:
    """Returns the entries of a folder by name, without hidden ones."""
    with os.scandir(directory) as entries:
        visible = (
            entry
            for entry in entries
            # `__MACOSX` is the folder that Macs add to archives.
            if not entry.name.startswith((".", "__"))
            and entry.name.lower() not in _SYSTEM
        )
        return sorted(visible, key=lambda entry: entry.name)


def _walk(directory: str) -> list[str]:
    """Returns the paths of the files of a folder and of the folders in it, sorted.

    A symbolic link is followed, but not to a folder above or a folder listed before.
    Its target may be missing, which is an error of its row.
    """
    files, pending = [], [directory]
    listed = {str(parent) for parent in Path(os.path.realpath(directory)).parents}
    while pending:
        folder = pending.pop()
        real = os.path.realpath(folder)
        if real in listed:
            continue
        listed.add(real)
        for entry in list_visible(folder):
            if _is_directory(entry):
                pending.append(entry.path)
            elif os.path.isfile(entry.path) or not os.path.exists(entry.path):
                files.append(entry.path)
    return sorted(files)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    # `DirEntry.is_dir` raises an error for a link to itself.
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()


def _read_bytes(path: str) -> bytes:
    try:
        with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as f:
            content = f.read(_MOST_BYTES + 1)
    except (*DAMAGE, OSError) as error:
        raise RowError(f"the file cannot be read: {error}") from error
    if len(content) > _MOST_BYTES:
        raise RowError(
            f"the file has more than {_MOST_BYTES >> 20} MiB, and each file is one text"
        )
    return content


def _decode(content: bytes, encoding: str) -> str:
    codec = text_lines.find_codec(content[: text_lines.MARK_BYTES], encoding)
    try:
        text = content.decode(codec, "surrogateescape")
    except UnicodeError as error:  # of UTF-16 and UTF-32
        raise EncodingError(f"the file is not {encoding}: {error}") from error
    if not text_lines.are_decoded([text]):
        for number, line in enumerate(text.split("\n"), start=1):
            text_lines.check(line, encoding, f"line {number}, ")
    if "\0" in text:
        raise EncodingError(f"it has NUL characters, which {encoding} text never has")
    return text


def _show(path: str) -> str:
    """Returns a path with the bytes escaped that are not of the system's encoding."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _join(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
