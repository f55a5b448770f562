"""DataGate: fails on anomalies, which ExampleValidator only writes to a file."""

import json
import os
from collections.abc import Iterable, Iterator

import apache_beam as beam
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import v1 as tfx
from tfx.types import artifact_utils
from tfx.utils import io_utils

from components.artifacts import DataVerdict
from components.data_gate import faulty_rows
from components.examples import NO_ID

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
        least one visible character. Those whose `in_environment` names a split must
        have a value in each of its rows.
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
    failures, notes = _sort_anomalies(anomalies, patterns)
    faults = faulty_rows.find_faults(
        beam_pipeline,
        patterns,
        contract,
        id_column,
        {split for split, _, _ in failures},
        verdict.uri,
    )
    problems = _describe(failures, faults, id_column)
    if problems:
        raise DataAnomaliesError(
            "the data does not fit its schema:\n  " + "\n  ".join(problems)
        )
    path = os.path.join(verdict.uri, VERDICT_FILE)
    io_utils.write_string_file(path, json.dumps(notes, indent=1))


def _sort_anomalies(
    artifact: tfx.dsl.Artifact, splits: Iterable[str]
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Returns (split, column, text) of the anomalies that fail; the other texts."""
    failures, notes = [], []
    for split in splits:
        for column, info in _read_anomalies(artifact, split):
            text = f"{split}: {column}: {info.short_description}: {info.description}"
            if {reason.type for reason in info.reason} <= _HARMLESS:
                notes.append(text)
            else:
                failures.append((split, column, text))
    return failures, notes


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


def _describe(
    failures: list[tuple[str, str, str]], faults: faulty_rows.Faults, id_column: str
) -> list[str]:
    """Returns a line per anomaly and per other fault, with some of its rows."""
    lines = []
    for split, column, text in failures:
        _, rows = faults.get((split, column, faulty_rows.INVALID), (0, []))
        shown = "; ".join(
            f"{id_column} {_show_id(row)}: {values}" for row, values in rows
        )
        lines.append(f"{text} (rows {shown})" if shown else text)
    for (split, column, kind), (count, rows) in faults.items():
        if kind != faulty_rows.INVALID:
            shown = ", ".join(_show_id(row) for row, _ in rows)
            lines.append(
                f"{split}: {column}: {kind}: in {count} examples (rows {shown})"
            )
    return lines


def _show_id(row: int) -> str:
    return "?" if row == NO_ID else str(row)
