"""A linear model on words: the simpler model that a fine-tuned one is compared with."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from modules.config.task import TaskConfig

_MOST_FEATURES = 50_000
# The rows that a training takes at most: it then lasts seconds for any number of
# classes.
_LEAST_ROWS = 5_000
_ROWS_AND_CLASSES = 100_000

# Chinese and Japanese do not separate words: each character is one.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")

Words = Sequence[Sequence[str]]  # of each text of a row


def most_rows(task: TaskConfig) -> int:
    """Returns how many rows a training takes at most."""
    return max(_LEAST_ROWS, _ROWS_AND_CLASSES // task.outputs)


def split_words(text: str) -> list[str]:
    """Returns the words of a text in lower case."""
    return _WORD.findall(text.lower())


class LinearModel:
    """Logistic regression on words; ridge regression for scores.

    The features of a text are its words and their pairs. Those of two texts are the
    words in both, those in one of them, and the share of the words in both.

    Args:
      task: The classes, or the range of the scores.
      rows: The words of the rows to train on.
      labels: Indices of classes, or scores, float64[rows].
    """

    def __init__(
        self, task: TaskConfig, rows: Sequence[Words], labels: np.ndarray
    ) -> None:
        self._task = task
        estimator: Any = Ridge()
        if task.classes:
            labels = labels.astype(int)
            is_constant = len(np.unique(labels)) == 1
            estimator = (
                DummyClassifier() if is_constant else LogisticRegression(max_iter=1000)
            )
        vectorizer = CountVectorizer(
            analyzer=_features, binary=True, max_features=_MOST_FEATURES
        )
        self._pipeline = make_pipeline(vectorizer, estimator).fit(rows, labels)

    def predict(self, rows: Sequence[Words]) -> np.ndarray:
        """Returns probabilities float64[rows, classes], or scores float64[rows]."""
        if not self._task.classes:
            return np.asarray(self._pipeline.predict(rows))
        probabilities = np.zeros((len(rows), self._task.outputs))
        probabilities[:, self._pipeline.classes_] = self._pipeline.predict_proba(rows)
        return probabilities


def _features(row: Words) -> Iterator[str]:
    if len(row) == 1:
        (words,) = row
        yield from words
        yield from map(" ".join, itertools.pairwise(words))
        yield f"{len(words).bit_length()} bits"  # so that each row has a feature
        return
    first, second = map(set, row)
    shared = first & second
    yield from (f"both {word}" for word in shared)
    yield from (f"first {word}" for word in first - second)
    yield from (f"second {word}" for word in second - first)
    yield f"{10 * len(shared) // max(len(first | second), 1)} tenths"
