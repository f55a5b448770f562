"""TFRecords of `tf.train.Example`, one set of files for each split."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path

from contracts.errors import SettingError, UsageError
from contracts.settings.data import DataConfig
from contracts.storage import files, uris
from contracts.storage.files import refuse_missing_shards
from ingest.examples import splits, tf_examples
from ingest.examples.data_card import DataCard, read_card
from ingest.examples.spans import Span
from ingest.examples.splits import GoodRow
from ingest.rows.formats import TFRECORD
from ingest.rows.readers import DEFAULTS
from ingest.rows.row_file import columns_error
from modules.data.source_rows import LocationWriter

RECORDS = "*.tf*record*"  # glob of the files in the folder of a split
_FILE = "data-00000-of-00001.tfrecord.gz"
_GZIP_MAGIC = b"\x1f\x8b\x08"


@dataclasses.dataclass(frozen=True)
class ExamplesDirectory:
    """A directory of TFRecords.

    Attributes:
      directory: Its path.
      patterns: File pattern of each split, relative to the directory.
      card: Where the rows came from.
      span: The span of the source; None if the source has no spans.
      fingerprint: SHA-256 of the files of a user's local TFRecords, which may change in
        place. None for remote ones, and for those that the name of their directory
        identifies.
      counts: Number of those files by split.
    """

    directory: str
    patterns: dict[str, str]
    card: DataCard
    span: Span | None = None
    fingerprint: str | None = None
    counts: dict[str, int] = dataclasses.field(default_factory=dict)

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


def find_examples(source: str, settings: DataConfig = DEFAULTS) -> ExamplesDirectory:
    """Finds the TFRecord splits of a directory.

    Args:
      source: A directory, local or remote, with a folder for each split (`train/`, as
        `prepare-data` writes), or with files whose names start with the split's
        (`train.tfrecord`, `train-00000-of-00002.tfrecord.gz`) or end with it
        (`MRPC_train.tf_record`).
      settings: Those that would need the rows are refused, because only ExampleGen
        reads them.

    Raises:
      UsageError: A required split is missing, a split has two names, the name of a
        file does not fit its compression, a setting is not allowed for TFRecords, or
        ExampleGen would read the directory as a file pattern.
    """
    uris.refuse_pattern("data.source", source)
    if settings.on_bad_rows != "refuse":
        raise SettingError(
            "data.on_bad_rows",
            f"{settings.on_bad_rows}, but {source} has TFRecords, whose rows are not "
            "checked here",
            advice="use `data.on_bad_rows=refuse`",
        )
    if settings.group_column is not None:
        raise SettingError(
            "data.group_column",
            f"{settings.group_column}, but {source} has TFRecords, whose groups are "
            "not checked here",
            advice="leave `data.group_column` out",
        )
    if settings.columns:
        raise columns_error(source, TFRECORD)
    patterns: dict[str, str] = {}
    for name, split in splits.SPLIT_NAMES.items():
        # A dot or a dash must follow: `eval` is not the start of `eval_mismatched`.
        globs = (f"{name}/{RECORDS}", f"{name}[-.]*tf*record*")
        present = [pattern for pattern in globs if _glob(source, pattern)]
        ending = _glob(source, f"*_{name}.tf*record*")
        for pattern in (*present, *map(os.path.basename, ending)):
            if split in patterns:
                paths = [_glob(source, p)[0] for p in (patterns[split], pattern)]
                names = [path.removeprefix(f"{source}/") for path in paths]
                raise splits.duplicate_error(source, names, f"the split {split}")
            patterns[split] = pattern
    splits.require_splits(source, patterns, "*.tfrecord*")
    for pattern in patterns.values():
        paths = _glob(source, pattern)
        refuse_missing_shards(paths, [pattern])
        for path in paths:
            # ExampleGen trusts the name, and reports a wrong one as a corrupted record.
            with files.open_binary(path) as file:
                is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            if is_gzip != path.endswith(".gz"):
                raise UsageError(
                    path,
                    f"it is {'' if is_gzip else 'not '}gzipped",
                    advice=f"{'add .gz to' if is_gzip else 'remove .gz from'} its name",
                    name="E-format-unknown",
                )
    card = read_card(source) or DataCard(source=source)
    return ExamplesDirectory(source, patterns, card)


def write_records(rows: Iterable[GoodRow], directory: Path) -> int:
    """Writes rows as Examples, and their locations in the source.

    Args:
      rows: The rows. Text becomes bytes, an int becomes int64, a float float32.
      directory: A new directory.

    Returns:
      The number of examples.
    """
    # Every command imports this file, and `--help` must not wait for TensorFlow.
    import tensorflow as tf

    directory.mkdir(parents=True)
    count = 0
    path = str(directory / _FILE)
    with (
        tf.io.TFRecordWriter(path, options="GZIP") as writer,
        LocationWriter(directory) as locations,
    ):
        for row in rows:
            writer.write(tf_examples.from_row(row.features))
            locations.add(row.location.file, row.location.row)
            count += 1
    return count


def list_examples(examples: ExamplesDirectory, split: str) -> list[str]:
    """Returns the paths of a split's files."""
    return _glob(examples.directory, examples.patterns[split])


def _glob(source: str, pattern: str) -> list[str]:
    if uris.is_local(source):
        # TensorFlow's `glob` would take the directory's name as a pattern too.
        return sorted(str(path) for path in Path(source).glob(pattern))
    from tensorflow.io import gfile  # here, because `--help` must not wait for it

    return sorted(gfile.glob(f"{source}/{pattern}"))
