"""A linear model on words: the simpler model that a fine-tuned one is compared with."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from contracts.task.definition import TaskConfig

# They limit the memory and the time of a training; docs/comparing.md has measurements.
_MOST_WORDS = 256  # of a text
_MOST_ROWS = 50_000
_LEAST_ROWS = 5_000
_ROWS_AND_CLASSES = 100_000
_MOST_FEATURES = 1 << 18
_MOST_WEIGHTS = 2_000_000
_MOST_STEPS = 200

Words = Sequence[Sequence[str]]  # of each text of a row


def most_rows(task: TaskConfig) -> int:
    """Returns how many rows a training takes at most."""
    return min(_MOST_ROWS, max(_LEAST_ROWS, _ROWS_AND_CLASSES // task.outputs))


class LinearModel:
    """Logistic regression on words, for each of several labels; ridge for scores.

    The features of a text are its first 256 words and their pairs. Those of two texts
    are the words in both, those in one of them, and the share of the words in both.
    They are hashed, so that no vocabulary is in memory.

    Args:
      task: The classes, or the range of the scores.
      rows: The words of the rows to train on.
      labels: Indices of classes, or scores, float64[rows]; of several labels 0 and 1,
        float64[rows, classes].
      weights: Weights of the rows, float64[rows]; None weighs all equally.
    """

    def __init__(
        self,
        task: TaskConfig,
        rows: Iterable[Words],
        labels: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        self._task = task
        self._vectorizer = HashingVectorizer(
            analyzer=_features,
            n_features=min(_MOST_FEATURES, _MOST_WEIGHTS // task.outputs),
            binary=True,
            norm=None,
            alternate_sign=False,
        )
        columns = task.label_kind.columns(labels)
        self._estimators: list[Any] = [_choose_estimator(task, c) for c in columns]
        if weights is not None:
            weights = weights / weights.mean() if weights.any() else None
        features = self._vectorizer.transform(rows)
        with warnings.catch_warnings():
            # Of random labels, which take more steps than words can explain.
            warnings.simplefilter("ignore", ConvergenceWarning)
            for estimator, column in zip(self._estimators, columns, strict=True):
                estimator.fit(features, column, sample_weight=weights)

    def predict(self, rows: Iterable[Words]) -> np.ndarray:
        """Returns probabilities float64[rows, classes], or scores float64[rows]."""
        features = self._vectorizer.transform(rows)
        parts = []
        for estimator in self._estimators:
            if isinstance(estimator, Ridge):
                parts.append(np.asarray(estimator.predict(features)))
                continue
            # A column of several labels has the values 0 and 1.
            classes = estimator.classes_.astype(int)
            width = max(2, self._task.outputs // len(self._estimators))
            probabilities = np.zeros((features.shape[0], width))
            probabilities[:, classes] = estimator.predict_proba(features)
            parts.append(probabilities)
        return self._task.label_kind.join_columns(parts)


def _choose_estimator(task: TaskConfig, labels: np.ndarray) -> Any:
    if not task.label_kind.names:
        return Ridge()
    if len(np.unique(labels)) == 1:
        return DummyClassifier()
    return LogisticRegression(max_iter=_MOST_STEPS)


def _features(row: Words) -> Iterator[str]:
    row = [words[:_MOST_WORDS] for words in row]
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
