"""Rows of the data sets of TensorFlow Datasets."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from typing import Any

from modules.config.task import TaskConfig
from pipeline.config.errors import UsageError
from pipeline.inputs.examples import splits
from pipeline.inputs.examples.splits import Report, Row, Rows

PREFIX = "tfds:"
_TIMEOUT_SECONDS = 10


def open_tables(
    source: str, task: TaskConfig, report: Report
) -> dict[str, Rows | None]:
    """Returns the rows of each split of a data set.

    Args:
      source: `tfds:NAME`.
      task: Names the columns.
      report: Called with a line for the user.

    Returns:
      Rows by split; None for a split without labels.

    Raises:
      UsageError: The data set cannot be loaded, or lacks a split or a column.
    """
    data, info = _load(source)
    class_names = _class_names(info.features, task)
    tables: dict[str, Rows | None] = {}
    for name in data:
        split = splits.SPLIT_NAMES.get(name)
        if split is None:
            report(f"{source} {name} is not a known split: left out")
            continue
        location = f"{source.removeprefix(PREFIX)} {name}"
        _, first = next(_rows(data[name], location, task, class_names), ("", {}))
        tables[split] = None
        if splits.has_labels(f"data {source} {name}", split, first, task):
            tables[split] = _rows(data[name], location, task, class_names)
        else:
            report(f"{source} {name} has no {task.label_column}: left out")
    missing = [split for split in splits.REQUIRED_SPLITS if split not in tables]
    if missing:
        raise UsageError(
            f"data {source} has no split {', '.join(missing)}; it has {', '.join(data)}"
        )
    return tables


def _load(source: str) -> tuple[dict[str, Any], Any]:
    import tensorflow_datasets as tfds

    name = source.removeprefix(PREFIX)
    try:
        builder = tfds.builder(name)
        if not builder.is_prepared():
            _require_network(builder.url_infos)
        return tfds.load(name, with_info=True)
    except tfds.core.registered.DatasetNotFoundError as error:
        raise UsageError(f"data {source}: TFDS has no such data") from error
    except Exception as error:  # download libraries raise errors of many types
        raise UsageError(
            f"data {source} cannot be loaded ({type(error).__name__}: "
            f"{str(error)[:200]}). Without a network, give a directory of its TSV "
            "files with --data DIR"
        ) from error


def _require_network(urls: Iterable[str]) -> None:
    """Fails if no server of a data set responds; TFDS retries for three minutes."""
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
        raise ConnectionError(f"no answer from {', '.join(by_host)}")


def _class_names(features: Any, task: TaskConfig) -> list[str] | None:
    """Returns TFDS's class names in its own order; None if they are not the task's."""
    label = dict(features.items()).get(task.label_column)
    names = list(getattr(label, "names", None) or ())
    return names if sorted(names) == sorted(task.classes or ("",)) else None


def _rows(
    dataset: Any, location: str, task: TaskConfig, class_names: list[str] | None
) -> Rows:
    import tensorflow_datasets as tfds

    for index, example in enumerate(tfds.as_numpy(dataset)):
        row: Row = {
            key: value.decode() if isinstance(value, bytes) else str(value)
            for key, value in example.items()
        }
        label = row.get(task.label_column)
        if class_names and label is not None and int(label) >= 0:
            row[task.label_column] = class_names[int(label)]
        yield f"{location} {index}", row
