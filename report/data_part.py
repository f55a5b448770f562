"""The parts of a report about the data; a report of refused data has no others."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow_metadata.proto.v0 import statistics_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import FeatureNameStatistics

from contracts.run_states import DATA_REFUSED, Outcome
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from contracts.verdicts import DataVerdict
from report.content import Column, Data, Lengths, LineageStep, Report, Split

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
    return begin_report(
        settings,
        verdict,
        statistics,
        outcome=DATA_REFUSED,
        conclusion="The data are refused; nothing was trained.",
        reasons=verdict.problems,
    )


def begin_report(
    settings: Sections,
    verdict: DataVerdict,
    statistics: Mapping[str, str],
    *,
    outcome: Outcome,
    conclusion: str,
    reasons: list[str],
) -> Report:
    """Returns a report with only the parts about the data.

    Args:
      settings: The recipe.
      verdict: DataGate's.
      statistics: File of TFDV's statistics by split.
      outcome: How the run ended.
      conclusion: The outcome in a sentence.
      reasons: Why the data or the model are refused.
    """
    source = verdict.card["source"]
    return Report(
        pipeline=settings.name,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
        outcome=outcome,
        verdict=conclusion,
        reasons=reasons,
        task=settings.task,
        split=settings.evaluator.gate_split,
        data=Data(
            splits=[
                _read_split(split, path, verdict.profile.get(split, {}), settings.task)
                for split, path in statistics.items()
            ],
            anomalies=verdict.problems,
            warnings=verdict.warnings,
            notes=verdict.notes,
            card=verdict.card,
            **dict(settings.preprocessing),
        ),
        lineage=[
            LineageStep(
                kind="data",
                name=os.path.basename(source.rstrip("/")),
                version=verdict.card["fingerprint"] or "unknown",
                uri=source,
            )
        ],
    )


def _read_split(
    name: str, path: str, profile: Mapping[str, Any], task: TaskConfig
) -> Split:
    with tf.io.gfile.GFile(path, "rb") as file:
        content = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read())
    (statistics,) = content.datasets
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
