"""DataGate: fails on anomalies, which ExampleValidator only writes to a file."""

import json
import os
from collections.abc import Iterator

import apache_beam as beam
import tensorflow as tf
import tensorflow_data_validation as tfdv
from apache_beam.options.pipeline_options import PipelineOptions
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2
from tfx import v1 as tfx
from tfx.types import artifact_utils
from tfx.utils import io_utils

from components import examples as examples_lib
from components.artifacts import DataVerdict
from components.data_gate import gaps

VERDICT_FILE = "verdict.json"

# The pipeline does not read columns that the schema does not name.
_HARMLESS = {anomalies_pb2.AnomalyInfo.SCHEMA_NEW_COLUMN}


class DataAnomaliesError(Exception):
    """The data does not fit its schema; names columns, anomalies and rows."""


@tfx.dsl.components.component(use_beam=True)
def DataGate(
    examples: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Examples],
    schema: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Schema],
    anomalies: tfx.dsl.components.InputArtifact[
        tfx.types.standard_artifacts.ExampleAnomalies
    ],
    verdict: tfx.dsl.components.OutputArtifact[DataVerdict],
    id_column: tfx.dsl.components.Parameter[str],
    fingerprint: tfx.dsl.components.Parameter[str],
    beam_pipeline: tfx.dsl.components.BeamComponentParameter[beam.Pipeline] = None,
) -> None:
    """Fails on anomalies, and on empty texts where the schema forbids them.

    Args:
      examples: The raw Examples of all splits.
      schema: Their schema. Features with the annotation tag `not_empty` must contain at
        least one visible character.
      anomalies: ExampleValidator's, against the same schema.
      verdict: The anomalies that are reported but do not fail.
      id_column: The int64 feature that identifies a row in the error.
      fingerprint: Hash of this code; part of the cache key.
      beam_pipeline: Set by TFX.

    Raises:
      DataAnomaliesError: The data does not fit its schema.
    """
    del fingerprint
    contract = tfdv.load_schema_text(io_utils.get_only_uri_in_dir(schema.uri))
    patterns = {
        split: os.path.join(artifact_utils.get_split_uri([examples], split), "*")
        for split in artifact_utils.decode_split_names(examples.split_names)
    }
    problems, notes = [], []
    for split, pattern in patterns.items():
        failures, harmless = _describe_anomalies(anomalies, split)
        notes += harmless
        if failures:
            rows = _find_rows(pattern, contract, beam_pipeline.options)
            problems += [
                text + _show_rows(rows, column, id_column) for column, text in failures
            ]
    problems += gaps.find_gaps(
        beam_pipeline, patterns, contract, id_column, verdict.uri
    )
    if problems:
        raise DataAnomaliesError(
            "the data does not fit its schema:\n  " + "\n  ".join(problems)
        )
    path = os.path.join(verdict.uri, VERDICT_FILE)
    io_utils.write_string_file(path, json.dumps(notes, indent=1))


def _describe_anomalies(
    artifact: tfx.dsl.Artifact, split: str
) -> tuple[list[tuple[str, str]], list[str]]:
    """Returns column and description of those that fail, and the harmless ones."""
    failures, harmless = [], []
    for column, info in _read_anomalies(artifact, split):
        text = f"{split}: {column}: {info.short_description}: {info.description}"
        if {reason.type for reason in info.reason} <= _HARMLESS:
            harmless.append(text)
        else:
            failures.append((column, text))
    return failures, harmless


def _read_anomalies(
    artifact: tfx.dsl.Artifact, split: str
) -> Iterator[tuple[str, anomalies_pb2.AnomalyInfo]]:
    directory = artifact_utils.get_split_uri([artifact], split)
    content = io_utils.read_bytes_file(io_utils.get_only_uri_in_dir(directory))
    anomalies = anomalies_pb2.Anomalies.FromString(content)
    yield from sorted(anomalies.anomaly_info.items())
    if anomalies.HasField("dataset_anomaly_info"):
        yield "(dataset)", anomalies.dataset_anomaly_info
    if anomalies.data_missing:
        info = anomalies_pb2.AnomalyInfo(description="the split has no examples")
        info.reason.add()
        yield "(dataset)", info


def _find_rows(
    pattern: str, schema: schema_pb2.Schema, options: PipelineOptions
) -> dict[str, list[tf.train.Example]]:
    """Returns a few rows per anomaly that a single row can show, by its reason."""
    _, rows = tfdv.utils.validation_lib.validate_examples_in_tfrecord(
        pattern,
        tfdv.StatsOptions(schema=schema),
        num_sampled_examples=gaps.ROWS_SHOWN,
        pipeline_options=options,
    )
    return rows


def _show_rows(
    rows_by_reason: dict[str, list[tf.train.Example]], column: str, id_column: str
) -> str:
    rows = []
    for reason, examples in sorted(rows_by_reason.items()):
        if reason.startswith(f"{column}_"):
            for example in examples:
                row = examples_lib.read_id(example, id_column)
                values = examples_lib.read_values(example, column)
                rows.append(
                    f"{id_column} {'?' if row is None else row}: {values!r:.80}"
                )
    return f" (rows {'; '.join(rows[: gaps.ROWS_SHOWN])})" if rows else ""
