"""The schema of a task's Examples."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from contracts import fingerprint
from contracts.errors import UsageError
from contracts.settings.data_gate import NOT_EMPTY_TAG
from contracts.task.definition import TOKENIZED_FEATURES, TRAIN_SPLIT, TaskConfig
from pipeline.config.paths import OutputPaths


def build_schema(task: TaskConfig) -> schema_pb2.Schema:
    """Builds the schema, in which every example has every column.

    Returns:
      A schema in which texts are not empty, and the label is the index of a class, a
      score within its range, or 0 or 1 for each of several labels. Token ids have any
      length, and their rows may lack an id. A weight is 0 or more; only the training
      split must have it.
    """
    schema = schema_pb2.Schema()
    schema.dataset_constraints.min_examples_count = 1
    if task.is_tokenized:
        for name in TOKENIZED_FEATURES:
            _add_feature(schema, name, schema_pb2.INT).value_count.min = 1
    else:
        for column in task.text_columns:
            feature = _add_column(schema, column, schema_pb2.BYTES)
            feature.annotation.tag.append(NOT_EMPTY_TAG)
    kind = task.label_kind
    if kind.dtype == "float32":
        label = _add_column(schema, task.label_column, schema_pb2.FLOAT)
        label.float_domain.min, label.float_domain.max = kind.low, kind.high
        label.float_domain.disallow_nan = label.float_domain.disallow_inf = True
    else:
        size = kind.label_size
        label = _add_column(schema, task.label_column, schema_pb2.INT, size)
        label.int_domain.min, label.int_domain.max = int(kind.low), int(kind.high)
        label.int_domain.is_categorical = True
    if task.is_tokenized:
        feature = schema.feature.add(name=task.id_column, type=schema_pb2.INT)
        feature.value_count.min = feature.value_count.max = 1
    else:
        _add_column(schema, task.id_column, schema_pb2.INT)
    if task.weight_column is not None:
        weight = schema.feature.add(name=task.weight_column, type=schema_pb2.FLOAT)
        weight.value_count.min = weight.value_count.max = 1
        weight.float_domain.min = 0
        weight.float_domain.disallow_nan = weight.float_domain.disallow_inf = True
        # TFX's components ignore environments. For DataGate, they are names of splits.
        weight.in_environment.append(TRAIN_SPLIT)
    return schema


def required_columns(task: TaskConfig) -> list[str]:
    """Returns the names of the columns that a curated schema must have."""
    weight = [] if task.weight_column is None else [task.weight_column]
    if task.is_tokenized:
        return [*TOKENIZED_FEATURES, task.label_column, *weight]
    return [*task.text_columns, task.label_column, task.id_column, *weight]


def write_schema(
    task: TaskConfig, paths: OutputPaths, curated: str | None = None
) -> Path:
    """Writes the schema that the run enforces.

    Args:
      task: Names the columns.
      paths: Where it is written; its path has a hash of its content.
      curated: Path of a schema to enforce instead of the task's.

    Returns:
      The path of the written schema.

    Raises:
      UsageError: The curated schema cannot be read, lacks a column of the task, or
        accepts rows without the label or a text.
    """
    schema = build_schema(task)
    if curated is not None:
        schema = _read_curated(task, schema, curated)
    text = text_format.MessageToString(schema)
    path = paths.schema(fingerprint.of_text(text))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _add_column(
    schema: schema_pb2.Schema,
    name: str,
    kind: schema_pb2.FeatureType.ValueType,
    size: int = 1,
) -> schema_pb2.Feature:
    feature = _add_feature(schema, name, kind)
    feature.shape.dim.add(size=size)
    return feature


def _add_feature(
    schema: schema_pb2.Schema, name: str, kind: schema_pb2.FeatureType.ValueType
) -> schema_pb2.Feature:
    feature = schema.feature.add(name=name, type=kind)
    feature.presence.min_fraction = 1.0
    feature.presence.min_count = 1
    return feature


def _read_curated(
    task: TaskConfig, derived: schema_pb2.Schema, path: str
) -> schema_pb2.Schema:
    """Reads a curated schema.

    It must not accept rows without the label or an input: Transform replaces a missing
    label by class 0 and a missing text by "".
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        schema = text_format.Parse(text, schema_pb2.Schema())
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise UsageError(
            path,
            f"not a schema in text format: {error}",
            advice="correct it, or leave `data.schema_file` out",
            name="E-schema-file-refused",
        ) from error
    features = {feature.name: feature for feature in schema.feature}
    missing = set(required_columns(task)) - features.keys()
    if missing:
        raise UsageError(
            path,
            f"it lacks the task's columns {', '.join(sorted(missing))}",
            advice="add them as features",
            name="E-schema-file-refused",
        )
    problems = [
        f"feature {expected.name} has "
        f"{_show_demands(features[expected.name]) or 'no presence or value_count'} "
        f"instead of {_show_demands(expected)}"
        for expected in derived.feature
        if expected.name not in (task.id_column, task.weight_column)
        and not _demands_values(features[expected.name], expected)
    ]
    if problems:
        raise UsageError(
            path,
            "; ".join(problems),
            advice="require the label and the inputs of the task in every row",
            name="E-schema-file-refused",
        )
    return schema


def _demands_values(feature: schema_pb2.Feature, expected: schema_pb2.Feature) -> bool:
    """Returns whether a feature requires values in every row, as `expected` does."""
    low, high = feature.value_count.min, feature.value_count.max
    if feature.HasField("shape"):
        sizes = [dim.size for dim in feature.shape.dim]
        low = high = sizes[0] if len(sizes) == 1 else 0
    (size,) = (dim.size for dim in expected.shape.dim) if expected.shape.dim else (0,)
    has_values = low == high == size if size else low >= 1
    return feature.presence.min_fraction == 1 and has_values


def _show_demands(feature: schema_pb2.Feature) -> str:
    demands = schema_pb2.Feature()
    for field in ("presence", "shape", "value_count"):
        if feature.HasField(field):
            getattr(demands, field).CopyFrom(getattr(feature, field))
    return text_format.MessageToString(demands, as_one_line=True)
