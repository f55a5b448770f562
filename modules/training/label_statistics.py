"""The labels of the training split: weights in the loss, log odds, scale of scores."""

from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contracts.settings.trainer import ClassWeights
from contracts.task.definition import TaskConfig
from contracts.task.label_kind import LabelKind
from modules.data import inputs
from modules.training import strategies
from modules.training.heads import ScoreScale

_BATCH = 1024  # rows that are read at once
# Added to the rows with and without a label: the odds of none or all rows are finite.
_SMOOTHING = 0.5

logger = logging.getLogger(__name__)


class Balance(NamedTuple):
    """The weights and the log odds of a training split.

    Attributes:
      weights: A weight for each class, one for all rows of a regression, or none if
        neither classes nor rows are weighted. With several labels, the weights of the
        rows without each label, and then of the rows with it.
      log_odds: The log odds of each of several labels, with the weights of
        `task.weight_column` alone; none for other tasks.
    """

    weights: list[float]
    log_odds: list[float]


def measure_balance(
    class_weights: ClassWeights,
    task: TaskConfig,
    data: inputs.ExamplesConfig,
    strategy: tf.distribute.Strategy,
) -> Balance:
    """Returns the weight of each class, and the log odds of each of several labels.

    A row's own weight is multiplied by the weight of its class. The weights are scaled
    so that the mean of all products over the training split is 1: the learning rate,
    its warmup and the clipping act as without weights. Call it in the processes of all
    hosts.

    Args:
      class_weights: Setting `trainer.class_weights`.
      task: Names the classes and the weight column.
      data: The training split, or this host's own files of it.
      strategy: The strategy.

    Raises:
      ValueError: `auto` finds no row of a class, a weight of a row is not allowed, or
        all weights of rows are 0.
    """
    is_weighted = class_weights is not None or task.weight_column is not None
    kind = task.label_kind
    if not is_weighted and not kind.fits_log_odds:
        return Balance([], [])
    rows, sums = _count(data, kind)
    if data.host_examples:  # the split is larger than this host's files
        counts = [*rows, *sums]
        totals = strategies.sum_over_hosts(strategy, counts, tf.float64)
        rows, sums = np.split(np.array(totals), 2)
    if not sums.min() >= 0 or np.isinf(sums).any():  # NaN is a missing weight
        raise ValueError(
            f"task.weight_column is {task.weight_column}, and the training split has "
            "rows where it is missing, negative or not finite; allowed are numbers "
            "from 0"
        )
    weights = _class_weights(class_weights, task, rows)
    total = weights @ sums
    if not total:
        raise ValueError(
            f"task.weight_column is {task.weight_column}, which is 0 in all rows of "
            "the training split; at least one must be above 0"
        )
    weights = weights * (rows.sum() / total)
    log_odds = []
    if kind.fits_log_odds:
        smoothed = sums * (rows.sum() / sums.sum()) + _SMOOTHING
        without, having = np.split(np.log(smoothed), 2)
        log_odds = (having - without).tolist()
    if not is_weighted:
        return Balance([], log_odds)
    parts = []
    if class_weights is not None:
        by_class = kind.name_weights(weights.tolist()).items()
        shown = ", ".join(f"{name} {weight:.3g}" for name, weight in by_class)
        parts.append(f"class weights in the training loss: {shown}")
    if task.weight_column is not None:
        parts.append(f"row weights in the training loss: column {task.weight_column}")
    logger.info("%s; metrics are unweighted", "; ".join(parts))
    return Balance(weights.tolist(), log_odds)


def measure_scale(
    task: TaskConfig, data: inputs.ExamplesConfig, strategy: tf.distribute.Strategy
) -> ScoreScale:
    """Returns the scale of the scores of the training split; of classes, no scale.

    Call it in the processes of all hosts.

    Args:
      task: Names the label and its range.
      data: The training split, or this host's own files of it.
      strategy: The strategy.
    """
    if not task.label_kind.is_scaled:
        return ScoreScale()
    low = task.label_kind.low
    label = {data.label_column: tf.io.FixedLenFeature([], tf.float32)}
    sums = np.zeros(3)
    for records in inputs.without_autotuning(inputs.read_records(data).batch(_BATCH)):
        scores = tf.io.parse_example(records, label)[data.label_column].numpy()
        # Squares of the distances from the range lose no digits far from 0.
        distances = scores.astype(float) - low
        sums += [len(scores), distances.sum(), (distances**2).sum()]
    if data.host_examples:  # the split is larger than this host's files
        sums = np.array(strategies.sum_over_hosts(strategy, sums.tolist(), tf.float64))
    rows, total, squares = sums
    distance = total / rows
    std = math.sqrt(max(squares / rows - distance**2, 0.0))
    if std <= np.finfo(np.float32).eps * distance:  # all scores are equal
        std = 1.0
    scale = ScoreScale(float(low + distance), std)
    logger.info("scores are standardized: mean %.6g, deviation %.6g", *scale)
    return scale


def describe_weights(task: TaskConfig, weights: list[float]) -> dict[str, Any] | None:
    """Describes the weights of a training for its record; None without weights."""
    if not weights:
        return None
    return {
        "classes": task.label_kind.name_weights(weights) or None,
        "weight_column": task.weight_column,
        "applied_to": "training loss; metrics are unweighted",
    }


def _count(
    data: inputs.ExamplesConfig, kind: LabelKind
) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows and sum of their weights by group, each float64[weight_groups]."""
    features = {data.label_column: inputs.label_feature(data)}
    if data.weight_column is not None:
        features[data.weight_column] = tf.io.FixedLenFeature([], tf.float32)
    groups = kind.weight_groups
    rows, sums = np.zeros(groups), np.zeros(groups)
    for records in inputs.without_autotuning(inputs.read_records(data).batch(_BATCH)):
        columns = tf.io.parse_example(records, features)
        index = kind.group_ids(columns[data.label_column].numpy())
        rows += np.bincount(index, minlength=groups)
        weights = None
        if data.weight_column is not None:
            weights = columns[data.weight_column].numpy()
            weights = np.where(weights >= 0, weights, np.nan)
            weights = np.repeat(weights, kind.label_size)
        sums += np.bincount(index, weights, minlength=groups)
    return rows, sums


def _class_weights(
    setting: ClassWeights, task: TaskConfig, rows: np.ndarray
) -> np.ndarray:
    """Returns the unscaled weights of the setting by group, float64[weight_groups]."""
    kind = task.label_kind
    if setting is None:
        return np.ones(len(rows))
    if isinstance(setting, dict):
        return kind.spread_weights([setting.get(name, 1) for name in kind.names])
    counts = zip(kind.names, kind.count_names(rows), strict=True)
    absent = [name for name, count in counts if not count]
    if absent:
        raise ValueError(
            "trainer.class_weights is auto, but the training split has no row of the "
            f"class {', '.join(absent)}; add rows of it, take it out of task.classes, "
            "or set a weight for each class"
        )
    return kind.balance(rows)
