"""The parts of a report about the data; a report of refused data has no others."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow_metadata.proto.v0 import statistics_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import FeatureNameStatistics

from contracts.records.data import DataVerdict
from contracts.run_states import DATA_REFUSED
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from report.content import Column, LineageStep, Report, Split

_MOST_VALUES = 5


def describe_refused_data(
    settings: Sections, verdict: DataVerdict, statistics: Mapping[str, str]
) -> Report:
    """Returns the report of a run whose data were refused.

    Args:
      settings: The recipe.
      verdict: DataGate's, with the problems.
      statistics: File of TFDV's statistics by split.
    """
    return Report(
        **describe_data(settings, verdict, statistics),
        outcome=DATA_REFUSED,
        reasons=verdict.problems,
    )


def describe_data(
    settings: Sections, verdict: DataVerdict, statistics: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the fields of a report that every run has.

    Args:
      settings: The recipe.
      verdict: DataGate's.
      statistics: File of TFDV's statistics by split.
    """
    source = verdict.card["source"]
    return {
        "pipeline": settings.name,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(
            "T", "seconds"
        ),
        "task": settings.task,
        "split": settings.evaluator.gate_split,
        "packing": settings.preprocessing,
        "data": verdict,
        "splits": [
            _read_split(split, path, settings.task)
            for split, path in statistics.items()
        ],
        "lineage": [
            LineageStep(
                kind="data",
                name=os.path.basename(source.rstrip("/")),
                version=verdict.card["fingerprint"] or "unknown",
                uri=source,
            )
        ],
    }


def _read_split(name: str, path: str, task: TaskConfig) -> Split:
    with tf.io.gfile.GFile(path, "rb") as file:
        content = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read())
    (statistics,) = content.datasets
    features = {feature.path.step[-1]: feature for feature in statistics.features}
    order = [*task.text_columns, task.label_column, task.id_column]
    names = sorted(features, key=lambda name: [*order, name].index(name))
    return Split(
        name=name,
        rows=int(statistics.num_examples),
        columns=[_read_column(column, features[column]) for column in names],
    )


def _read_column(name: str, feature: FeatureNameStatistics) -> Column:
    kind = FeatureNameStatistics.Type.Name(feature.type)
    column = Column(name=name, kind=kind)
    if feature.HasField("num_stats"):
        number = feature.num_stats
        column.missing = int(number.common_stats.num_missing)
        column.mean = number.mean
        column.minimum, column.maximum = number.min, number.max
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
