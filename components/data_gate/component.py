"""DataGate: stops a pipeline on data that training would suffer from."""

import functools
import json
import logging
import pkgutil
import re
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import v1 as tfx
from tfx.types import artifact_utils
from tfx.utils import io_utils

from components.artifacts import DataVerdict
from components.data_gate import beam_reading, faulty_rows, span_profiles
from components.data_gate.row_names import Message, Row, render
from components.report_files import statistics_files, write_report
from modules import uris
from modules.verdicts import VERDICT_FILE

# The pipeline does not read columns that the schema does not name.
_HARMLESS = {anomalies_pb2.AnomalyInfo.SCHEMA_NEW_COLUMN}
_SPAN = re.compile(r"\{SPAN(?::(\d+))?\}")


class DataAnomaliesError(Exception):
    """The data are refused; names columns or limits, numbers and rows.

    Attributes:
      report: Numbers and page of the report. On this machine TFX deletes what a failed
        component wrote.
    """

    def __init__(self, problems: list[str], report: tuple[str, str]) -> None:
        super().__init__("the data are refused:\n  " + "\n  ".join(problems))
        self.report = report


@tfx.dsl.components.component(use_beam=True)
def DataGate(
    examples: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Examples],
    statistics: tfx.dsl.components.InputArtifact[
        tfx.types.standard_artifacts.ExampleStatistics
    ],
    schema: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Schema],
    anomalies: tfx.dsl.components.InputArtifact[
        tfx.types.standard_artifacts.ExampleAnomalies
    ],
    verdict: tfx.dsl.components.OutputArtifact[DataVerdict],
    id_column: tfx.dsl.components.Parameter[str],
    functions: tfx.dsl.components.Parameter[str],
    settings: tfx.dsl.components.Parameter[str],
    thresholds: tfx.dsl.components.Parameter[str],
    source: tfx.dsl.components.Parameter[str],
    patterns: tfx.dsl.components.Parameter[str],
    spans: tfx.dsl.components.Parameter[str],
    profiles: tfx.dsl.components.Parameter[str],
    card: tfx.dsl.components.Parameter[str],
    report_functions: tfx.dsl.components.Parameter[str],
    fingerprint: tfx.dsl.components.Parameter[str],
    beam_pipeline: tfx.dsl.components.BeamComponentParameter[beam.Pipeline] = None,
) -> None:
    """Fails on anomalies, on empty texts, and on rows that a judgment refuses.

    Args:
      examples: The raw Examples of all splits.
      statistics: StatisticsGen's, for the report of refused data.
      schema: Their schema. Features with the annotation tag `not_empty` must contain at
        least one visible character. Those whose `in_environment` names a split must
        have a value in each of its rows.
      anomalies: ExampleValidator's, against the same schema.
      verdict: What is reported but does not fail, and a profile of each split.
      id_column: The int64 feature that identifies a row in a message.
      functions: Import path of a module with `describe`, `judge`, `hash_record`,
        `is_empty` and `locate`, as `modules.data.gate_functions` has them.
      settings: JSON: the settings of `describe`, `judge` and `describe_refused_data`.
      thresholds: JSON: lowest value by metric that the Evaluator will require.
      source: The directory that ExampleGen read.
      patterns: JSON: the file pattern of each split, relative to the source.
      spans: JSON: the number of the span by source, only of sources with spans.
      profiles: Directory of the spans' profiles. A span is compared with the last one.
      card: JSON: where the rows came from, which the verdict repeats.
      report_functions: Import path of a module with `describe_refused_data`, as
        `modules.report.functions` has it.
      fingerprint: Hash of this code and of `functions`; part of the cache key.
      beam_pipeline: Set by TFX.

    Raises:
      DataAnomaliesError: The data are refused.
    """
    del fingerprint
    library = pkgutil.resolve_name(functions)
    splits = {
        split: uris.join(artifact_utils.get_split_uri([examples], split), "*")
        for split in artifact_utils.decode_split_names(examples.split_names)
    }
    failures, notes = _sort_anomalies(anomalies, splits)
    faults, facts = beam_reading.read_splits(
        beam_pipeline,
        splits,
        verdict.uri,
        schema=tfdv.load_schema_text(io_utils.get_only_uri_in_dir(schema.uri)),
        id_column=id_column,
        invalid_splits={split for split, _, _ in failures},
        hash_record=library.hash_record,
        is_empty=library.is_empty,
        describe=library.describe,
        settings=json.loads(settings),
    )
    span = json.loads(spans).get(source)
    judgment = library.judge(
        facts,
        json.loads(settings),
        json.loads(thresholds),
        span=span,
        previous=None if span is None else span_profiles.read_last(profiles, span),
    )
    refused, warnings = _sort_findings(judgment.findings, failures, facts)
    problems = [*_describe(failures, faults), *refused]
    locate = functools.partial(library.locate, source, _patterns(patterns, span))
    texts = render(warnings, id_column, locate)
    for text in texts:
        logging.getLogger(__name__).warning(text)
    content = {
        "card": json.loads(card),
        "profile": judgment.summaries,
        "warnings": texts,
        "notes": notes,
    }
    if problems:
        content["problems"] = render(problems, id_column, locate)
        reporting = pkgutil.resolve_name(report_functions)
        report = reporting.describe_refused_data(
            {"statistics": statistics_files(statistics), "data_verdict": content},
            json.loads(settings),
        )
        write_report(verdict.uri, report)
        raise DataAnomaliesError(content["problems"], report)
    _write(verdict.uri, content)
    if span is not None and judgment.reference is not None:
        span_profiles.write(profiles, span, judgment.reference)


def read_data_verdict(uri: str) -> dict[str, Any]:
    """Returns `card`, `profile`, `warnings` and `notes` of a verdict."""
    with tfx.dsl.io.fileio.open(uris.join(uri, VERDICT_FILE)) as file:
        return json.load(file)


def _write(uri: str, verdict: dict[str, Any]) -> None:
    path = uris.join(uri, VERDICT_FILE)
    io_utils.write_string_file(path, json.dumps(verdict, indent=1))


def _patterns(patterns: str, span: int | None) -> dict[str, str]:
    """Returns the patterns by split, with the digits of the span in them."""
    return {
        split: _SPAN.sub(lambda width: f"{span:0{width[1] or 0}}", pattern)
        for split, pattern in json.loads(patterns).items()
    }


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


def _sort_findings(
    findings: list[Any],
    failures: list[tuple[str, str, str]],
    facts: dict[str, list[beam_reading.Facts]],
) -> tuple[list[Message], list[Message]]:
    """Returns the findings that are refused, and the warnings."""
    # That no row of a split can be judged is reported with the reason already.
    failed = {split for split, _, _ in failures if not _count(facts[split])}
    refused: list[Message] = []
    warnings: list[Message] = []
    for finding in findings:
        if finding.split not in failed:
            groups = [[Row(*row) for row in rows] for rows in finding.rows]
            message = Message(finding.message, finding.split, groups)
            (refused if finding.is_refused else warnings).append(message)
    return refused, warnings


def _count(parts: list[beam_reading.Facts]) -> int:
    return sum(len(array) for part in parts for array in part.values())


def _describe(
    failures: list[tuple[str, str, str]], faults: faulty_rows.Faults
) -> list[Message]:
    """Returns a message per anomaly and per other fault, with some of its rows."""
    messages = []
    for split, column, text in failures:
        _, rows = faults.get((split, column, faulty_rows.INVALID), (0, []))
        groups = [[Row(split, record, row, values)] for row, values, record in rows]
        messages.append(Message(text, split, groups))
    for (split, column, kind), (count, rows) in faults.items():
        if kind != faulty_rows.INVALID:
            groups = [[Row(split, record, row)] for row, _, record in rows]
            text = f"{split}: {column}: {kind}: in {count} examples"
            messages.append(Message(text, split, groups))
    return messages
