"""Predictions of texts with swapped words for groups of people."""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import tensorflow as tf
from scipy import stats

from components.examples import read_id, read_values
from components.serving_check.request import ServingRequest, SwappedRows
from components.serving_check.word_swaps import WordSwaps
from contracts.metrics import CONFIDENCE
from contracts.settings.evaluator import WORD, GroupWords
from contracts.storage import files, uris
from contracts.verdicts import WordChanges

_FILE = "swapped.json"
_SHOWN = 5  # rows with the largest changes, of each list
_ENGLISH = Path(__file__).with_name("group_words.json")


class SwappedText(pydantic.BaseModel):
    """A row and its version with swapped words, for the report.

    Attributes:
      row: The index of the row among those of the list.
      id: The id of the row.
      texts: Its texts in the order of the text columns.
      swapped: The texts with swapped words.
      output: Its probabilities, or its score.
      swapped_output: Those of the texts with swapped words.
      change: As in `WordChanges.mean_change`.
      is_changed: Whether the predicted class or labels differ, or the score by enough.
    """

    row: int
    id: int
    texts: list[str]
    swapped: list[str]
    output: list[float] | float
    swapped_output: list[float] | float
    change: float
    is_changed: bool


def read_lists(lists: GroupWords | None) -> GroupWords:
    """Returns the lists of the settings; the English ones if they have none."""
    if lists is not None:
        return lists
    return json.loads(_ENGLISH.read_text(encoding="utf-8"))


def draw(
    examples: Iterable[tf.train.Example],
    columns: Sequence[str],
    lists: GroupWords,
    id_column: str,
    count: int,
) -> Iterator[tuple[str, SwappedRows, list[tf.train.Example]]]:
    """Yields rows with words of each list, which are swapped in all texts of a row.

    The rows are drawn at random, always the same. Texts that are not UTF-8 are left
    out.

    Args:
      examples: All rows.
      columns: The text columns.
      lists: The words.
      id_column: The int64 feature that identifies a row.
      count: Versions of each list, at most.

    Yields:
      The name of the list, the rows without their inputs, and the Examples to send: the
      rows, then their versions.
    """
    swaps = {name: WordSwaps(rows) for name, rows in lists.items()}
    drawn: dict[str, list[Any]] = {name: [] for name in swaps}
    order = random.Random(0)
    for index, example in enumerate(examples):
        texts = _read_texts(example, columns)
        words = {word for text in texts for word in WORD.findall(text.lower())}
        for name, swap in swaps.items():
            if words.isdisjoint(swap.words):
                continue
            # A heap has the smallest on top, and the rows with the smallest are drawn.
            entry = (-order.random(), index, example, texts)
            if len(drawn[name]) < count:
                heapq.heappush(drawn[name], entry)
            else:
                heapq.heappushpop(drawn[name], entry)
    for name, swap in swaps.items():
        rows: list[tuple[tf.train.Example, list[str]]] = []
        versions: list[tuple[tf.train.Example, list[str]]] = []
        of_rows: list[int] = []
        for _, _, example, texts in sorted(drawn[name], reverse=True):
            swapped = swap.versions(texts)
            if len(versions) + len(swapped) > count and rows:
                break
            of_rows += [len(rows)] * len(swapped)
            rows.append((example, texts))
            versions += [(_replace(example, columns, new), new) for new in swapped]
        if rows:
            described = SwappedRows(
                inputs={},
                ids=[read_id(example, id_column) for example, _ in rows],
                rows=of_rows,
                texts=[texts for _, texts in (*rows, *versions)],
            )
            yield name, described, [example for example, _ in (*rows, *versions)]


def measure(
    request: ServingRequest, predictions: Mapping[str, Any]
) -> list[WordChanges]:
    """Returns by how much predictions change if words are swapped, by list.

    Args:
      request: The request that was sent.
      predictions: The probe's, by signature; outputs must be finite.
    """
    changes = []
    for name, pairs in _compare(request, predictions):
        rows = {pair.row for pair in pairs}
        changed = {pair.row for pair in pairs if pair.is_changed}
        test = stats.binomtest(len(changed), len(rows))
        interval = test.proportion_ci(CONFIDENCE)  # exact
        changes.append(
            WordChanges(
                name=name,
                rows=len(rows),
                versions=len(pairs),
                changed=len(changed),
                interval=(float(interval.low), float(interval.high)),
                mean_change=float(np.mean([pair.change for pair in pairs])),
            )
        )
    return changes


def write(
    directory: str, request: ServingRequest, predictions: Mapping[str, Any]
) -> None:
    """Writes the rows with the largest changes for `read_swapped`.

    Args:
      directory: Directory of the component's `blessing`.
      request: As for `measure`.
      predictions: As for `measure`.
    """
    lists = {}
    for name, pairs in _compare(request, predictions):
        largest: dict[int, SwappedText] = {}
        for pair in sorted(pairs, key=lambda pair: (-pair.is_changed, -pair.change)):
            largest.setdefault(pair.row, pair)
        shown = itertools.islice(largest.values(), _SHOWN)
        lists[name] = [pair.model_dump() for pair in shown]
    files.write_record(uris.join(directory, _FILE), {"lists": lists})


def read_swapped(directory: str) -> dict[str, list[SwappedText]]:
    """Reads the rows with the largest changes by list; empty without any.

    Args:
      directory: Directory of the component's `blessing`.
    """
    content = files.read_record(uris.join(directory, _FILE)) or {"lists": {}}
    return {
        name: [SwappedText.model_validate(pair) for pair in pairs]
        for name, pairs in content["lists"].items()
    }


def _compare(
    request: ServingRequest, predictions: Mapping[str, Any]
) -> Iterator[tuple[str, list[SwappedText]]]:
    """Yields each list with its versions beside their rows."""
    for signature in request.signatures:
        outputs = predictions.get(signature.name, {}).get("swapped", {})
        for name, values in outputs.items():
            sent, array = signature.swapped[name], np.asarray(values, float)
            count = len(sent.ids)
            before, after = array[sent.rows], array[count:]
            kind = request.settings.task.label_kind
            change, is_changed = kind.compare(before, after, request.threshold)
            yield (
                name,
                [
                    SwappedText(
                        row=row,
                        id=sent.ids[row],
                        texts=sent.texts[row],
                        swapped=sent.texts[count + version],
                        output=before[version].tolist(),
                        swapped_output=after[version].tolist(),
                        change=float(change[version]),
                        is_changed=bool(is_changed[version]),
                    )
                    for version, row in enumerate(sent.rows)
                ],
            )


def _read_texts(example: tf.train.Example, columns: Sequence[str]) -> list[str]:
    """Returns the texts of a row; empty if one is missing or not UTF-8."""
    try:
        return [
            text.decode("utf-8")
            for column in columns
            for (text,) in [read_values(example, column)]
        ]
    except ValueError:
        return []


def _replace(
    example: tf.train.Example, columns: Sequence[str], texts: Sequence[str]
) -> tf.train.Example:
    replaced = tf.train.Example.FromString(example.SerializeToString())
    for column, text in zip(columns, texts, strict=True):
        replaced.features.feature[column].bytes_list.value[:] = [text.encode()]
    return replaced
