"""Compares the rows of two windows; needs no TensorFlow."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

import numpy as np
from pydantic import Field
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from contracts.section import Settings
from modules.data import profile
from modules.data.profile import Profile

_FOLDS = 5
_CLASSIFIED_ROWS = 2_000  # of each window; more cost time and change little
_PENALTY = 0.01  # scikit-learn's C: a few hundred rows have as many dimensions


class Limits(Settings):
    """The largest differences between two windows that are no alarm.

    Only a difference that chance explains with a probability below `p` is an alarm.

    Attributes:
      classes: Of the share of a predicted class, or of the label of several that
        differs most.
      scores: Kolmogorov-Smirnov statistic of the highest probability, of the score, or
        of the probability of the label of several that differs most.
      lengths: Wasserstein distance in tokens, divided by the mean of the reference.
      unknown: Of the mean share of a row's tokens that are `[UNK]`.
      domain: Area under the ROC curve of a classifier that tells both windows apart by
        the texts' embeddings; 0.5 is chance.
      p: Probability under which chance is no explanation, also of a live metric that is
        below that of the gate.
      min_rows: Fewer rows in a window are not compared.
    """

    classes: float = Field(default=0.1, ge=0, le=1)
    scores: float = Field(default=0.15, ge=0, le=1)
    lengths: float = Field(default=0.2, ge=0)
    unknown: float = Field(default=0.02, ge=0, le=1)
    domain: float = Field(default=0.6, ge=0.5, le=1)
    p: float = Field(default=0.001, gt=0, lt=1)
    min_rows: int = Field(default=100, ge=2 * _FOLDS)


@dataclasses.dataclass(frozen=True)
class Window:
    """What is compared of the rows of a window.

    Attributes:
      lengths: Tokens of each row, int[rows].
      unknown: The share of them that are `[UNK]`, float[rows].
      scores: The highest probability, or the score of a regression, float[rows]; the
        probability of each of several labels, float[rows, labels].
      embeddings: One vector a row, float[rows, units].
      classes: The predicted class of each row; empty for a regression, and for several
        labels.
      labels: 1 for each row that several labels are predicted for, and 0, by label,
        int[rows] each.
    """

    lengths: np.ndarray
    unknown: np.ndarray
    scores: np.ndarray
    embeddings: np.ndarray
    classes: list[str]
    labels: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lengths)


@dataclasses.dataclass(frozen=True)
class Check:
    """A difference of two windows.

    Attributes:
      name: The field of `Limits`.
      value: The difference.
      limit: The largest one that is no alarm.
      p: The probability of such a difference by chance; NaN if nothing varies.
      is_alarm: Whether the value exceeds the limit, and not by chance, or is NaN.
      label: The class or label that differs most; empty for other checks.
    """

    name: str
    value: float
    limit: float
    p: float
    is_alarm: bool
    label: str = ""


def compare(window: Window, reference: Window, limits: Limits) -> list[Check]:
    """Compares two windows.

    Args:
      window: At least `limits.min_rows` rows.
      reference: As many.
      limits: The limits.

    Returns:
      A check for each limit, without `classes` in a regression.
    """
    names = sorted({*window.classes, *reference.classes, *window.labels})
    profiles = _profile(window, names), _profile(reference, names)
    label = ""
    measured: dict[str, tuple[float, float]] = {
        "scores": _compare_scores(window.scores, reference.scores),
        "lengths": profile.compare_lengths(*profiles),
        "unknown": (
            abs(float(window.unknown.mean() - reference.unknown.mean())),
            float(stats.mannwhitneyu(window.unknown, reference.unknown).pvalue),
        ),
        "domain": tell_apart(window.embeddings, reference.embeddings),
    }
    if names:
        label, difference, p = profile.compare_classes(
            *profiles, counts_once=not window.labels
        )
        measured = {"classes": (difference, p), **measured}
    return [
        # A difference is NaN if an output of the model is.
        Check(
            name,
            value,
            limit,
            p,
            not value <= limit and not p >= limits.p,
            label if name == "classes" else "",
        )
        for name, (value, p) in measured.items()
        for limit in [getattr(limits, name)]
    ]


def tell_apart(window: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Returns how well a classifier tells two windows apart by their embeddings.

    Equal embeddings count once in each window: a text that repeats would be in training
    and test folds.

    Args:
      window: float[rows, units].
      reference: float[rows, units].

    Returns:
      The area under the ROC curve of a logistic regression on rows that it was not
      trained on, and the p-value of the Mann-Whitney test.
    """
    random = np.random.default_rng(0)
    parts = [
        random.permutation(np.unique(part, axis=0)) for part in (window, reference)
    ]
    parts = [part[:_CLASSIFIED_ROWS] for part in parts]
    if min(map(len, parts)) < _FOLDS:
        return 0.5, 1.0
    labels = np.repeat([1, 0], list(map(len, parts)))
    classifier = make_pipeline(
        StandardScaler(),
        LogisticRegression(C=_PENALTY, class_weight="balanced", max_iter=1_000),
    )
    scores = cross_val_predict(
        classifier,
        np.concatenate(parts),
        labels,
        cv=StratifiedKFold(_FOLDS, shuffle=True, random_state=0),
        method="decision_function",
    )
    test = stats.mannwhitneyu(
        scores[labels == 1], scores[labels == 0], alternative="greater"
    )
    return float(roc_auc_score(labels, scores)), float(test.pvalue)


def _compare_scores(window: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Returns the largest Kolmogorov-Smirnov statistic of a column, and its p-value.

    It is the least one of as many tests as there are columns (Bonferroni).
    """
    columns = zip(
        window.reshape(len(window), -1).T,
        reference.reshape(len(reference), -1).T,
        strict=True,
    )
    results = [stats.ks_2samp(*pair) for pair in columns]
    # The statistic is NaN if an output of the model is.
    largest = max(results, key=lambda result: np.nan_to_num(result.statistic, nan=2))
    p = np.minimum(1, largest.pvalue * len(results))
    return float(largest.statistic), float(p)


def _profile(window: Window, names: list[str]) -> Profile:
    counts = Counter(window.classes)
    counts.update({name: int(rows.sum()) for name, rows in window.labels.items()})
    return Profile(
        {name: counts[name] for name in names},
        np.bincount(window.lengths).tolist(),
    )
