"""The schema of a task, and curated schemas."""

import re

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from contracts.task.definition import TaskConfig
from pipeline.config.paths import OutputPaths
from pipeline.inputs import schema
from tests.refusals import refused

TASK = TaskConfig(text_columns=["question", "answer"], classes=["a", "b", "c"])


def test_schema_follows_from_the_task():
    features = {feature.name: feature for feature in schema.build_schema(TASK).feature}
    assert set(features) == {"question", "answer", "label", "idx"}
    assert features["question"].type == schema_pb2.BYTES
    assert list(features["answer"].annotation.tag) == ["not_empty"]
    assert features["label"].int_domain.max == 2
    assert all(feature.presence.min_fraction == 1 for feature in features.values())


def test_each_of_several_labels_is_0_or_1(tmp_path):
    task = TASK.model_copy(update={"kind": "multilabel"})
    curated = schema.build_schema(task)
    (label,) = (feature for feature in curated.feature if feature.name == "label")
    assert (label.int_domain.min, label.int_domain.max) == (0, 1)
    assert [dim.size for dim in label.shape.dim] == [3]
    label.shape.Clear()
    label.value_count.min, label.value_count.max = 3, 3
    path = tmp_path / "curated.pbtxt"
    path.write_text(text_format.MessageToString(curated))
    assert schema.write_schema(task, OutputPaths(tmp_path, "tiny"), str(path))
    label.value_count.max = 4
    path.write_text(text_format.MessageToString(curated))
    with refused("E-schema-file-refused", got=re.compile("shape { dim { size: 3 } }")):
        schema.write_schema(task, OutputPaths(tmp_path, "tiny"), str(path))


def test_score_must_be_a_number_within_the_range_of_the_task():
    task = TaskConfig(text_columns=["text"], label_range=[-1, 2.5])
    features = {feature.name: feature for feature in schema.build_schema(task).feature}
    assert set(features) == {"text", "label", "idx"}
    assert features["label"].type == schema_pb2.FLOAT
    assert features["label"].float_domain.min == -1
    assert features["label"].float_domain.max == 2.5
    assert features["label"].float_domain.disallow_nan


def test_tokenized_input_has_ids_of_any_length_and_may_lack_those_of_its_rows():
    task = TaskConfig(input="tokenized")
    features = {feature.name: feature for feature in schema.build_schema(task).feature}
    assert set(features) == {
        *("input_ids", "input_mask", "segment_ids"),
        *("label_ids", "example_id"),
    }
    assert features["input_ids"].presence.min_fraction == 1
    assert not features["input_ids"].HasField("shape")
    assert features["example_id"].presence.min_fraction == 0


@pytest.mark.parametrize("settings", [{}, {"input": "tokenized"}])
def test_weight_is_a_number_from_0_that_only_training_must_have(settings):
    task = TaskConfig(weight_column="weight", **settings)
    features = {feature.name: feature for feature in schema.build_schema(task).feature}
    weight = features["weight"]
    assert weight.type == schema_pb2.FLOAT
    assert (weight.float_domain.min, weight.float_domain.disallow_inf) == (0, True)
    assert not weight.HasField("presence")
    assert list(weight.in_environment) == ["train"]


def test_curated_schema_must_name_the_weight_and_may_require_it(tmp_path):
    task = TASK.model_copy(update={"weight_column": "weight"})
    paths = OutputPaths(tmp_path, "tiny")
    curated = write_curated(tmp_path / "curated.pbtxt")
    got = "it lacks the task's columns weight"
    with refused("E-schema-file-refused", setting=curated, got=got):
        schema.write_schema(task, paths, curated)
    with open(curated, "a") as file:
        file.write(f'\nfeature {{ name: "weight" type: FLOAT {ONCE} }}')
    assert schema.write_schema(task, paths, curated)


def test_another_schema_is_written_to_another_path(tmp_path):
    paths = OutputPaths(tmp_path, "tiny")
    first = schema.write_schema(TASK, paths)
    assert schema.write_schema(TASK, paths) == first
    assert schema.write_schema(TaskConfig(), paths) != first


def test_curated_schema_is_enforced_unchanged(tmp_path):
    curated = schema.build_schema(TASK)
    curated.feature[2].int_domain.max = 1
    path = tmp_path / "curated.pbtxt"
    path.write_text(text_format.MessageToString(curated))
    written = schema.write_schema(TASK, OutputPaths(tmp_path, "tiny"), str(path))
    enforced = text_format.Parse(written.read_text(), schema_pb2.Schema())
    assert enforced == curated


def test_curated_schema_of_tokenized_input_need_not_name_an_id(tmp_path):
    curated = schema.build_schema(TaskConfig(input="tokenized"))
    del curated.feature[-1]
    path = tmp_path / "curated.pbtxt"
    path.write_text(text_format.MessageToString(curated))
    paths = OutputPaths(tmp_path, "tiny")
    assert schema.write_schema(TaskConfig(input="tokenized"), paths, str(path))


ONCE = "presence { min_fraction: 1 } shape { dim { size: 1 } }"


def write_curated(path, **features):
    """Writes a curated schema of TASK whose columns are required unless replaced."""
    columns = {"question": "BYTES", "answer": "BYTES", "label": "INT", "idx": "INT"}
    path.write_text(
        "\n".join(
            f'feature {{ name: "{name}" type: {kind} {features.get(name, ONCE)} }}'
            for name, kind in columns.items()
        )
    )
    return str(path)


@pytest.mark.parametrize(
    ("column", "demands", "actual"),
    [
        ("label", "presence { min_count: 1 }", "presence { min_count: 1 }"),
        ("answer", "presence { min_count: 1 }", "presence { min_count: 1 }"),
        ("question", "", "no presence or value_count"),
        ("label", "presence { min_fraction: 0.9 } shape { dim { size: 1 } }", "0.9"),
        ("label", "presence { min_fraction: 1 }", "presence { min_fraction: 1.0 }"),
        ("answer", "presence { min_fraction: 1 } value_count { max: 1 }", "max: 1 }"),
        ("label", "presence { min_fraction: 1 } value_count { min: 1 }", "min: 1 }"),
        ("label", "presence { min_fraction: 1 } value_count { min: 2 max: 2 }", "2 }"),
        (
            "label",
            "presence { min_fraction: 1 } shape { dim { size: 2 } }",
            "size: 2.*",
        ),
    ],
)
def test_curated_schema_that_admits_rows_without_label_or_text_is_refused(
    tmp_path, column, demands, actual
):
    curated = write_curated(tmp_path / "curated.pbtxt", **{column: demands})
    required = "presence { min_fraction: 1.0 min_count: 1 } shape { dim { size: 1 } }"
    got = re.compile(f"^feature {column} has .*{actual}.* instead of {required}$")
    with refused("E-schema-file-refused", setting=curated, got=got):
        schema.write_schema(TASK, OutputPaths(tmp_path, "tiny"), curated)


def test_curated_schema_may_count_values_instead_of_fixing_the_shape(tmp_path):
    counted = "presence { min_fraction: 1 } value_count { min: 1 max: 1 }"
    curated = write_curated(
        tmp_path / "curated.pbtxt", label=counted, answer=counted, idx=""
    )
    assert schema.write_schema(TASK, OutputPaths(tmp_path, "tiny"), curated)


def test_curated_schema_that_admits_rows_without_token_ids_is_refused(tmp_path):
    task = TaskConfig(input="tokenized")
    curated = schema.build_schema(task)
    curated.feature[0].value_count.min = 0
    path = tmp_path / "curated.pbtxt"
    path.write_text(text_format.MessageToString(curated))
    got = re.compile("input_ids .*value_count { min: 1 }")
    with refused("E-schema-file-refused", got=got):
        schema.write_schema(task, OutputPaths(tmp_path, "tiny"), str(path))
    curated.feature[0].ClearField("value_count")
    curated.feature[0].shape.dim.add(size=128)
    path.write_text(text_format.MessageToString(curated))
    assert schema.write_schema(task, OutputPaths(tmp_path, "tiny"), str(path))


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("feature {", "not a schema in text format: "),
        ('feature { name: "question" }', "lacks the task's columns answer, idx, label"),
    ],
)
def test_curated_schema_that_does_not_fit_is_refused(tmp_path, text, got):
    path = tmp_path / "curated.pbtxt"
    path.write_text(text)
    with refused("E-schema-file-refused", setting=str(path), got=re.compile(got)):
        schema.write_schema(TASK, OutputPaths(tmp_path, "tiny"), str(path))
