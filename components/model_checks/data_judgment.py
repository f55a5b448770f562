"""Judges the data of a model by its checks, before training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from components.model_checks.registry import ConfiguredCheck
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from modules.data.judgment import Finding
from modules.data.row_facts import RowFacts, hash_texts
from modules.data.slice_sizes import Counts


def judge(
    checks: Iterable[ConfiguredCheck],
    task: TaskConfig,
    split: str,
    rows: Mapping[str, RowFacts],
    slices: Mapping[str, Counts],
) -> Iterator[Finding]:
    """Yields the findings of checks.

    Args:
      checks: The checks.
      task: The task.
      split: The split that decides.
      rows: The rows by split.
      slices: The rows of `split` by column of `data.slice_columns`.
    """
    train = rows[TRAIN_SPLIT].texts if TRAIN_SPLIT in rows else np.empty(0, np.uint64)
    for configured in checks:
        check, settings = configured.check, configured.settings
        texts = check.texts_to_find(settings)
        hashes = np.array([hash_texts(text) for text in texts], np.uint64)
        is_in_train = np.isin(hashes, train)
        found = [text for text, is_in in zip(texts, is_in_train, strict=True) if is_in]
        yield from check.judge_data(settings, task, split, slices, found)
