"""DataGate: fails where ExampleValidator only writes its anomalies to a file."""

import functools
import json
import os
import unicodedata
from collections.abc import Iterator

import apache_beam as beam
import tensorflow as tf
import tensorflow_data_validation as tfdv
from apache_beam.options.pipeline_options import PipelineOptions
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2
from tfx import v1 as tfx
from tfx.types import artifact_utils

from components.artifacts import DataVerdict

# A schema asks for texts with something in them by this tag on a feature: TFDV has
# no length bound for strings.
NOT_EMPTY_TAG = "not_empty"
EXAMPLES_SHOWN = 3
VERDICT_FILE = "verdict.json"

# Unicode categories of what BERT's tokenizer drops: white space, control and
# format characters, such as the zero width space.
_INVISIBLE = {"Zs", "Zl", "Zp", "Cc", "Cf"}
# A column that the schema does not name harms nobody: the pipeline does not read it.
_HARMLESS = {anomalies_pb2.AnomalyInfo.SCHEMA_NEW_COLUMN}


class DataAnomaliesError(Exception):
    """Data that does not fit its schema; the text names column, kind and examples."""


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
      examples: The raw Examples, of all splits.
      schema: What they must be. Features tagged `not_empty` must hold at least one
        visible character.
      anomalies: What ExampleValidator found against the same schema.
      verdict: The anomalies that are reported only.
      id_column: The int64 feature that names a row in the error.
      fingerprint: Of this code, so that the cache sees an edit.
      beam_pipeline: Given by TFX.

    Raises:
      DataAnomaliesError: The data does not fit.
    """
    del fingerprint
    contract = _read_schema(schema)
    splits = artifact_utils.decode_split_names(examples.split_names)
    patterns = {
        split: os.path.join(artifact_utils.get_split_uri([examples], split), "*")
        for split in splits
    }
    problems, notes = [], []
    find_rows = functools.cache(
        functools.partial(_anomalous, contract, beam_pipeline.options)
    )
    for split in splits:
        for column, info in _read_anomalies(anomalies, split):
            text = f"{split}: {column}: {info.short_description}: {info.description}"
            if {reason.type for reason in info.reason} <= _HARMLESS:
                notes.append(text)
            else:
                # One pass over a split shows the rows of all its columns.
                found = find_rows(patterns[split])
                problems.append(text + _show_examples(found, column, id_column))
    problems += _find_gaps(beam_pipeline, patterns, contract, id_column, verdict.uri)
    if problems:
        raise DataAnomaliesError(
            "the data does not fit its schema:\n  " + "\n  ".join(problems)
        )
    with tfx.dsl.io.fileio.open(os.path.join(verdict.uri, VERDICT_FILE), "w") as file:
        json.dump(notes, file, indent=1)


def _read_schema(schema: tfx.dsl.Artifact) -> schema_pb2.Schema:
    (name,) = tfx.dsl.io.fileio.listdir(schema.uri)
    return tfdv.load_schema_text(os.path.join(schema.uri, name))


def _read_anomalies(
    artifact: tfx.dsl.Artifact, split: str
) -> Iterator[tuple[str, anomalies_pb2.AnomalyInfo]]:
    directory = artifact_utils.get_split_uri([artifact], split)
    (name,) = tfx.dsl.io.fileio.listdir(directory)
    with tfx.dsl.io.fileio.open(os.path.join(directory, name), "rb") as file:
        found = anomalies_pb2.Anomalies.FromString(file.read())
    for column, info in sorted(found.anomaly_info.items()):
        yield column, info
    if found.HasField("dataset_anomaly_info"):
        yield "(dataset)", found.dataset_anomaly_info
    if found.data_missing:
        info = anomalies_pb2.AnomalyInfo(description="the split has no examples")
        info.reason.add()
        yield "(dataset)", info


def _anomalous(
    schema: schema_pb2.Schema, options: PipelineOptions, pattern: str
) -> dict[str, list[tf.train.Example]]:
    """Finds a few rows of each anomaly that a row alone can show, by its reason."""
    _, found = tfdv.utils.validation_lib.validate_examples_in_tfrecord(
        pattern,
        tfdv.StatsOptions(schema=schema),
        num_sampled_examples=EXAMPLES_SHOWN,
        pipeline_options=options,
    )
    return found


def _show_examples(
    found: dict[str, list[tf.train.Example]], column: str, id_column: str
) -> str:
    rows = [
        _show_row(example, column, id_column)
        for reason, examples in sorted(found.items())
        if reason.startswith(f"{column}_")
        for example in examples
    ]
    return f" (rows {'; '.join(rows[:EXAMPLES_SHOWN])})" if rows else ""


def _show_row(example: tf.train.Example, column: str, id_column: str) -> str:
    ids = example.features.feature[id_column].int64_list.value
    feature = example.features.feature[column]
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value) if kind else []
    return f"{id_column} {', '.join(map(str, ids)) or '?'}: {values!r:.80}"


def _find_gaps(
    pipeline: beam.Pipeline,
    patterns: dict[str, str],
    schema: schema_pb2.Schema,
    id_column: str,
    directory: str,
) -> list[str]:
    """Finds rows without a required value, which TFDV counts but does not show."""
    required = [f.name for f in schema.feature if f.presence.min_fraction == 1]
    texts = [f.name for f in schema.feature if NOT_EMPTY_TAG in f.annotation.tag]
    output = os.path.join(directory, "gaps")
    with pipeline as p:
        for split, pattern in patterns.items():
            rows = (
                p
                | f"Read[{split}]" >> beam.io.ReadFromTFRecord(pattern)
                | f"Find[{split}]" >> beam.FlatMap(_gaps, required, texts, id_column)
            )
            count = rows | f"Count[{split}]" >> beam.combiners.Count.PerKey()
            sample = rows | f"Sample[{split}]" >> (
                beam.combiners.Sample.FixedSizePerKey(EXAMPLES_SHOWN)
            )
            (
                (count, sample)
                | f"Join[{split}]" >> beam.CoGroupByKey()
                | f"Show[{split}]" >> beam.Map(functools.partial(_show_gap, split))
                | f"Write[{split}]"
                >> beam.io.WriteToText(f"{output}-{split}", num_shards=1)
            )
    found = []
    for path in sorted(tfx.dsl.io.fileio.glob(f"{output}-*")):
        with tfx.dsl.io.fileio.open(path) as file:
            found += [line.rstrip("\n") for line in file]
    return found


def _gaps(
    record: bytes, required: list[str], texts: list[str], id_column: str
) -> Iterator[tuple[tuple[str, str], int]]:
    features = tf.train.Example.FromString(record).features.feature
    ids = features[id_column].int64_list.value
    row = ids[0] if ids else -1
    for column in required:
        kind = features[column].WhichOneof("kind")
        if not (kind and getattr(features[column], kind).value):
            yield (column, "No value"), row
    for column in texts:
        if any(_is_empty(text) for text in features[column].bytes_list.value):
            yield (column, "Empty text"), row


def _is_empty(text: bytes) -> bool:
    # The tokenizer drops bytes that are not UTF-8, and their replacement character.
    characters = text.decode("utf-8", errors="ignore").replace("\ufffd", "")
    return all(
        unicodedata.category(character) in _INVISIBLE for character in characters
    )


def _show_gap(split: str, gap: tuple) -> str:
    (column, kind), ((count,), (ids,)) = gap
    rows = ", ".join(str(i) for i in sorted(ids))
    return f"{split}: {column}: {kind}: in {count} examples (rows {rows})"
