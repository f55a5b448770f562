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
import tensorflow as tf
from scipy import stats

from components.examples import read_id, read_values
from components.serving_check.request import ServingRequest, SwapRequest
from components.serving_check.word_swaps import WordSwaps
from contracts.metrics import CONFIDENCE
from contracts.records.serving import SwappedRow, WordChanges
from contracts.settings.evaluator import WORD, GroupWords

_SHOWN = 5  # rows with the largest changes, of each list
_ENGLISH = Path(__file__).with_name("group_words.json")


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
) -> Iterator[tuple[str, SwapRequest, list[tf.train.Example]]]:
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
            described = SwapRequest(
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
    kind = request.settings.task.label_kind
    changes = []
    for signature in request.signatures:
        outputs = predictions.get(signature.name, {}).get("swapped", {})
        for name, values in outputs.items():
            sent, array = signature.swapped[name], np.asarray(values, float)
            rows = np.array(sent.rows)
            before, after = array[rows], array[len(sent.ids) :]
            change, is_changed = kind.compare(before, after, request.threshold)
            changed = len(np.unique(rows[is_changed]))
            # The version of each row that changes most, in the order of the change.
            largest: dict[int, int] = {}
            for version in np.lexsort((-change, ~is_changed)):
                largest.setdefault(int(rows[version]), int(version))
            test = stats.binomtest(changed, len(sent.ids))
            interval = test.proportion_ci(CONFIDENCE)  # exact
            changes.append(
                WordChanges(
                    name=name,
                    rows=len(sent.ids),
                    versions=len(rows),
                    changed=changed,
                    interval=(float(interval.low), float(interval.high)),
                    mean_change=float(np.mean(change)),
                    largest=[
                        _describe(request, sent, version, before, after)
                        for version in itertools.islice(largest.values(), _SHOWN)
                    ],
                )
            )
    return changes


def _describe(
    request: ServingRequest,
    sent: SwapRequest,
    version: int,
    before: np.ndarray,
    after: np.ndarray,
) -> SwappedRow:
    """Returns a row and one of its versions, with the predictions of both."""
    kind, row = request.settings.task.label_kind, sent.rows[version]
    outputs = np.array([before[version], after[version]])
    predicted = kind.predict(outputs, request.threshold)
    prediction, swapped_prediction = map(kind.describe, predicted)
    probability, swapped_probability = kind.probabilities_of(outputs, predicted[0])
    return SwappedRow(
        id=sent.ids[row],
        texts=sent.texts[row],
        swapped=sent.texts[len(sent.ids) + version],
        prediction=prediction,
        swapped_prediction=swapped_prediction,
        probability=probability,
        swapped_probability=swapped_probability,
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
