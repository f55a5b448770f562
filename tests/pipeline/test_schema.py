"""The schema that the data must fit."""

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from pipeline import schema
from pipeline.errors import UsageError
from pipeline.paths import OutputPaths
from pipeline.task import TaskConfig

TASK = TaskConfig(text_columns=["question", "answer"], classes=["a", "b", "c"])


def test_schema_follows_from_the_task():
    features = {feature.name: feature for feature in schema.build_schema(TASK).feature}
    assert set(features) == {"question", "answer", "label", "idx"}
    assert features["question"].type == schema_pb2.BYTES
    assert list(features["answer"].annotation.tag) == ["not_empty"]
    assert features["label"].int_domain.max == 2
    assert all(feature.presence.min_fraction == 1 for feature in features.values())


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


def test_another_schema_is_written_to_another_path(tmp_path):
    paths = OutputPaths(tmp_path, "tiny")
    first = schema.write_schema(TASK, paths)
    assert schema.write_schema(TASK, paths) == first
    assert schema.write_schema(TaskConfig(), paths) != first


def test_curated_schema_is_enforced_as_it_is(tmp_path):
    curated = schema.build_schema(TASK)
    curated.feature[2].int_domain.max = 1
    path = tmp_path / "curated.pbtxt"
    path.write_text(text_format.MessageToString(curated))
    written = schema.write_schema(TASK, OutputPaths(tmp_path, "tiny"), str(path))
    found = text_format.Parse(written.read_text(), schema_pb2.Schema())
    assert found == curated


def test_curated_schema_of_tokenized_input_need_not_name_an_id(tmp_path):
    curated = schema.build_schema(TaskConfig(input="tokenized"))
    del curated.feature[-1]
    path = tmp_path / "curated.pbtxt"
    path.write_text(text_format.MessageToString(curated))
    paths = OutputPaths(tmp_path, "tiny")
    assert schema.write_schema(TaskConfig(input="tokenized"), paths, str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("feature {", "cannot be read as a schema"),
        ('feature { name: "question" }', "lacks the task's columns answer, idx, label"),
    ],
)
def test_curated_schema_that_does_not_fit_is_refused(tmp_path, text, message):
    path = tmp_path / "curated.pbtxt"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        schema.write_schema(TASK, OutputPaths(tmp_path, "tiny"), str(path))
