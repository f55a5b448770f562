"""DataGate: stops a pipeline on data that would spoil training or evaluation."""

import functools
import json
import logging
import re
import tempfile
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import v1 as tfx
from tfx.types import artifact_utils
from tfx.utils import io_utils

from components.artifacts import DataVerdict
from components.data_gate import beam_reading, faulty_rows, span_profiles
from components.data_gate.row_names import Message, Row, render
from components.model_checks import data_judgment, registry
from contracts import wording
from contracts.errors import DataRefusedError
from contracts.records import data
from contracts.redaction import REDACTED, Redaction
from contracts.settings.sections import Reads, Sections
from contracts.storage import files, uris
from contracts.task.definition import TRAIN_SPLIT
from modules.data import judgment, leaked_labels, slice_judgment, source_rows
from modules.data.all_rows import AllRows

if TYPE_CHECKING:
    from report.content import Report

logger = logging.getLogger(__name__)


class DataAnomaliesError(DataRefusedError):
    """The data are refused. The message names columns or limits, counts and rows.

    Attributes:
      report: The report of the data. A local run writes it again, because TFX deletes
        the outputs of a failed component.
    """

    def __init__(self, report: "Report", **fields: Any) -> None:
        super().__init__(**fields)
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
    settings: tfx.dsl.components.Parameter[str],
    thresholds: tfx.dsl.components.Parameter[str],
    source: tfx.dsl.components.Parameter[str],
    patterns: tfx.dsl.components.Parameter[str],
    spans: tfx.dsl.components.Parameter[str],
    profiles: tfx.dsl.components.Parameter[str],
    card: tfx.dsl.components.Parameter[str],
    vocab_file: tfx.dsl.components.Parameter[str],
    vocab_fingerprint: tfx.dsl.components.Parameter[str],
    fingerprint: tfx.dsl.components.Parameter[str],
    checks: tfx.dsl.components.Parameter[str] = "{}",
    redact: tfx.dsl.components.Parameter[str] = "null",
    beam_pipeline: tfx.dsl.components.BeamComponentParameter[beam.Pipeline] = None,
) -> None:
    """Fails on anomalies, on empty texts, and on rows that `judgment` refuses.

    Args:
      examples: The raw Examples of all splits.
      statistics: StatisticsGen's, for the report of refused data.
      schema: Their schema. Features with the annotation tag `not_empty` must contain at
        least one visible character. Features whose `in_environment` names a split must
        have a value in each of its rows.
      anomalies: ExampleValidator's, against the same schema.
      verdict: `verdict.json` with notes, warnings and a profile of each split. If the
        data are refused, their report.
      settings: JSON of the settings in `READS`.
      thresholds: JSON: lowest value by metric that the Evaluator will require.
      source: The directory that ExampleGen read.
      patterns: JSON: the file pattern of each split, relative to the source.
      spans: JSON: the number of the span by source, for sources with spans.
      profiles: Directory of the spans' profiles. A span is compared with the previous
        one.
      card: JSON: origin of the rows, which the verdict repeats.
      vocab_file: One token a line. Its encoder's settings are next to it.
      vocab_fingerprint: Hash of both; part of the cache key.
      fingerprint: Hash of this code; part of the cache key.
      checks: JSON of the checks of the model that judge the data; see
        `registry.parse`.
      redact: JSON of the function that redacts texts; see `Redaction.parse`.
      beam_pipeline: Set by TFX.

    Raises:
      DataAnomaliesError: The data are refused.
      ValueError: A setting is invalid.
    """
    del fingerprint, vocab_fingerprint
    config = Sections.parse(settings, evaluator={"thresholds": thresholds})
    task, columns = config.task, config.data.slice_columns
    splits = {
        split: uris.join(artifact_utils.get_split_uri([examples], split), "*")
        for split in artifact_utils.decode_split_names(examples.split_names)
    }
    # Beam reads those that exist.
    files.list_records(splits.values())
    hidden = () if json.loads(redact) is None else task.text_columns
    failures, notes = _sort_anomalies(anomalies, splits, columns, hidden)
    faults, rows, slices, words = beam_reading.read_splits(
        beam_pipeline,
        splits,
        verdict.uri,
        schema=tfdv.load_schema_text(io_utils.get_only_uri_in_dir(schema.uri)),
        task=task,
        vocab_file=vocab_file,
        invalid_splits={split for split, _, _ in failures},
        sliced=(config.evaluator.gate_split, columns),
    )
    span = json.loads(spans).get(source)
    all_rows = AllRows(rows, task)
    findings = judgment.judge(
        all_rows,
        config,
        previous=None if span is None else span_profiles.read_last(profiles, span),
    )
    findings += slice_judgment.judge(slices, config)
    with tempfile.TemporaryDirectory() as folder:
        findings += data_judgment.judge(
            registry.parse(checks, folder),
            task,
            config.evaluator.gate_split,
            rows,
            slices,
        )
    findings += leaked_labels.judge(words, task, config.data_gate.max_word_f1)
    # If no row of a split could be read, `failures` has the reason.
    failed = {split for split, _, _ in failures if not len(rows[split])}
    refused: list[Message] = []
    warnings: list[Message] = []
    for finding in findings:
        if finding.split not in failed:
            groups = [[Row(*row) for row in group] for group in finding.rows]
            message = Message(finding.message, finding.split, groups, finding.name)
            (refused if finding.is_refused else warnings).append(message)
    # The file patterns of this span, with as many digits as the pattern has.
    file_patterns = {
        split: re.sub(
            r"\{SPAN(?::(\d+))?\}", lambda width: f"{span:0{width[1] or 0}}", pattern
        )
        for split, pattern in json.loads(patterns).items()
    }
    locate = functools.partial(source_rows.locate, source, file_patterns)
    name_rows = functools.partial(render, id_column=task.id_column, locate=locate)
    concluded = data.DataVerdict(
        card=json.loads(card),
        profile={
            split: profile.summary(config.preprocessing.max_seq_length)
            for split, profile in all_rows.profiles.items()
        },
        warnings=name_rows(warnings),
        notes=notes,
        problems=name_rows([*_describe(failures, faults, hidden), *refused]),
    )
    for text in concluded.warnings:
        logger.warning(text)
    if concluded.problems:
        # Imported here, so that the page is not part of the cache key
        # (`fingerprint.of_code`), and Beam workers, which import this file, do not load
        # the libraries that draw it.
        from report.data_part import describe_refused_data
        from report.redacted import redact_report
        from report.report_files import statistics_files, write_report

        report = describe_refused_data(config, concluded, statistics_files(statistics))
        with tempfile.TemporaryDirectory() as folder:
            if redaction := Redaction.parse(redact, folder):
                redact_report(report, redaction)
        write_report(verdict.uri, report)
        raise DataAnomaliesError(
            got="the data are refused:\n  " + "\n  ".join(concluded.problems),
            name="E-data-refused",
            report=report,
        )
    concluded.write(verdict.uri)
    if span is not None and (train := all_rows.profiles.get(TRAIN_SPLIT)):
        span_profiles.write(profiles, span, train)


def _sort_anomalies(
    artifact: tfx.dsl.Artifact,
    splits: Iterable[str],
    expected: Collection[str],
    hidden: Collection[str],
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Returns (split, column, text) of the anomalies that fail, and texts of others.

    The columns that are `expected` besides those of the schema are no anomaly. No value
    of a `hidden` column is shown.
    """
    failures, notes = [], []
    for split in splits:
        directory = artifact_utils.get_split_uri([artifact], split)
        content = io_utils.read_bytes_file(io_utils.get_only_uri_in_dir(directory))
        anomalies = anomalies_pb2.Anomalies.FromString(content)
        infos = sorted(anomalies.anomaly_info.items())
        if anomalies.HasField("dataset_anomaly_info"):
            infos.append(("(dataset)", anomalies.dataset_anomaly_info))
        if anomalies.data_missing:
            missing = anomalies_pb2.AnomalyInfo(description="the split has no examples")
            missing.reason.add()
            infos.append(("(dataset)", missing))
        for column, info in infos:
            description = REDACTED if column in hidden else info.description
            text = f"{split}: {column}: {info.short_description}: {description}"
            # A new column is harmless: the pipeline reads only columns of the schema.
            reasons = {reason.type for reason in info.reason}
            if reasons <= {anomalies_pb2.AnomalyInfo.SCHEMA_NEW_COLUMN}:
                if column not in expected:
                    notes.append(text)
            else:
                failures.append((split, column, text))
    return failures, notes


def _describe(
    failures: list[tuple[str, str, str]],
    faults: faulty_rows.Faults,
    hidden: Collection[str],
) -> list[Message]:
    """Returns a message per anomaly and per other fault, with some of its rows.

    No value of a `hidden` column is shown.
    """
    messages = []
    for split, column, text in failures:
        _, rows = faults.get((split, column, faulty_rows.INVALID), (0, []))
        groups = [
            [Row(split, record, row, REDACTED if column in hidden else values)]
            for row, values, record in rows
        ]
        messages.append(Message(text, split, groups, name="E-data-anomaly"))
    for (split, column, kind), (count, rows) in faults.items():
        if kind != faulty_rows.INVALID:
            groups = [[Row(split, record, row)] for row, _, record in rows]
            text = f"{split}: {column}: {kind}: in {wording.count(count, 'example')}"
            messages.append(Message(text, split, groups, name="E-rows-refused"))
    return messages


DataGate.READS = Reads(
    name=True,
    task=True,
    data={"slice_columns"},
    data_gate=True,
    preprocessing=True,
    evaluator={"split"},
)
