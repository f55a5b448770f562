"""The data of a report, from TFDV's statistics and DataGate's verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow_metadata.proto.v0 import statistics_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import FeatureNameStatistics

from modules.config.task import TaskConfig
from modules.report.content import Column, Data, Lengths, Split

_MOST_VALUES = 5


def read_data(
    statistics: Mapping[str, str],
    verdict: Mapping[str, Any],
    task: TaskConfig,
    max_seq_length: int,
) -> Data:
    """Reads the data of a report.

    Args:
      statistics: File of TFDV's statistics by split.
      verdict: DataGate's: `card`, `profile`, `warnings`, `notes` and, of refused data,
        `problems`.
      task: Names the columns.
      max_seq_length: Tokens from which rows are cut.
    """
    return Data(
        splits=[
            _read_split(split, path, verdict["profile"].get(split), task)
            for split, path in statistics.items()
        ],
        anomalies=verdict.get("problems", []),
        warnings=verdict["warnings"],
        notes=verdict["notes"],
        card=verdict["card"],
        max_seq_length=max_seq_length,
    )


def _read_split(
    name: str, path: str, profile: Mapping[str, Any] | None, task: TaskConfig
) -> Split:
    with tf.io.gfile.GFile(path, "rb") as file:
        content = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read())
    (statistics,) = content.datasets
    profile = profile or {}
    features = {feature.path.step[-1]: feature for feature in statistics.features}
    order = [*task.text_columns, task.label_column, task.id_column]
    names = sorted(features, key=lambda name: [*order, name].index(name))
    return Split(
        name=name,
        rows=int(statistics.num_examples),
        labels=profile.get("labels", {}),
        columns=[_read_column(column, features[column]) for column in names],
        lengths=Lengths(**profile["lengths"]) if "lengths" in profile else None,
    )


def _read_column(name: str, feature: FeatureNameStatistics) -> Column:
    column = Column(
        name=name,
        kind=FeatureNameStatistics.Type.Name(feature.type),
        missing=0,
        distinct=None,
        mean=None,
        minimum=None,
        maximum=None,
        top_values=[],
    )
    if feature.HasField("num_stats"):
        number = feature.num_stats
        column.missing = int(number.common_stats.num_missing)
        column.mean, column.minimum, column.maximum = (
            number.mean,
            number.min,
            number.max,
        )
    elif feature.HasField("string_stats"):
        text = feature.string_stats
        column.missing = int(text.common_stats.num_missing)
        column.distinct = int(text.unique)
        column.mean = text.avg_length
        column.top_values = [
            (value.value, int(value.frequency))
            for value in text.top_values[:_MOST_VALUES]
        ]
    return column
