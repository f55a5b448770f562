"""Rows of the data sets of TensorFlow Datasets."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from contracts.errors import UsageError
from contracts.settings.data import TFDS_PREFIX, DataConfig
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from ingest.examples import splits
from ingest.examples.bad_rows import BadRows
from ingest.examples.label_parser import LabelParser
from ingest.examples.row_parser import RowParser
from ingest.examples.splits import GoodRow, LocatedRow, Report, Row, by_index
from ingest.rows.row_errors import Location, RowError

_TIMEOUT_SECONDS = 10


def open_splits(
    source: str,
    task: TaskConfig,
    settings: DataConfig,
    report: Report,
    bad_rows: BadRows,
    watch: Callable[[Row | RowError], None] | None = None,
) -> dict[str, Iterator[GoodRow] | None]:
    """Returns the rows of each split of a data set, for `splitting.complete_splits`.

    The source is `tfds:NAME`. Other arguments are explained in
    `text_source.open_splits`.

    Raises:
      UsageError: The data set cannot be loaded, or lacks a split or a column.
      NotAnIndexError: See `LabelParser`; the rows raise it, too.
    """
    # Every command imports this file, and `--help` must not wait for TFDS.
    import tensorflow_datasets as tfds

    name = source.removeprefix(TFDS_PREFIX)
    try:
        builder = tfds.builder(name)
        if not builder.is_prepared():
            _require_network(builder.url_infos)
        data, info = tfds.load(name, with_info=True)
    except tfds.core.registered.DatasetNotFoundError as error:
        raise UsageError(
            source,
            "TFDS has no such data set",
            advice="see https://www.tensorflow.org/datasets/catalog",
            name="E-data-not-found",
        ) from error
    except Exception as error:  # download libraries raise errors of many types
        raise UsageError(
            source,
            f"it cannot be loaded ({type(error).__name__}: {str(error)[:200]})",
            advice="without a network, give a directory of its TSV files: "
            "`data.source=DIR`",
            name="E-network-failed",
        ) from error
    label = dict(info.features.items()).get(task.label_column)
    label = getattr(label, "feature", label)  # of a sequence of labels
    names = () if task.has_label_columns else getattr(label, "names", ())
    class_of_value = by_index(names)
    splits.refuse_other_classes(source, class_of_value, task)
    labels = LabelParser(task, settings)
    parser = RowParser(task, settings, labels, class_of_value)
    opened: dict[str, Iterator[GoodRow] | None] = {}
    for name in data:
        split = splits.SPLIT_NAMES.get(name)
        if split is None:
            report(f"{source} {name} is not a known split: left out")
            continue
        rows: Iterator[LocatedRow] = _rows(data[name], f"{source} {name}")
        if watch and split == TRAIN_SPLIT:
            rows = splits.watch(rows, watch)
        labelled = splits.take_labelled(f"{source} {name}", split, rows, task, report)
        opened[split] = None
        if labelled is not None:
            opened[split] = bad_rows.filter(split, labelled, parser)
    splits.require_splits(source, opened, "or another name of it", data)
    return opened


def _require_network(urls: Iterable[str]) -> None:
    """Fails if no server of a data set responds; TFDS would retry for 3 minutes."""
    by_host = {urllib.parse.urlsplit(url).netloc: url for url in urls}
    for url in by_host.values():
        request = urllib.request.Request(url, method="HEAD")
        try:
            urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS).close()
        except urllib.error.HTTPError:
            return  # it responds, but does not support HEAD
        except OSError:
            continue
        return
    if by_host:
        raise ConnectionError(f"no response from {', '.join(by_host)}")


def _rows(dataset: Any, location: str) -> Iterator[tuple[Location, Row]]:
    import tensorflow_datasets as tfds

    for number, example in enumerate(tfds.as_numpy(dataset), start=1):
        row: Row = {key: _to_text(value) for key, value in example.items()}
        yield Location(location, number), row


def _to_text(value: Any) -> Any:
    """Returns the text of a value; a list of texts if it is a sequence."""
    if getattr(value, "ndim", 0):
        return [_to_text(item) for item in value.tolist()]
    return value.decode() if isinstance(value, bytes) else str(value)
