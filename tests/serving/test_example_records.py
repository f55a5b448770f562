"""Examples and TFRecords as TensorFlow writes and reads them."""

import math

import pytest
import tensorflow as tf

from serving import example_records

ROWS = [
    {"text": "a", "ä": ["b", b"\xff\0", ""], "long": "c" * 300},
    {"one": 1, "many": [0, -1, 127, 128, 2**63 - 1, -(2**63)], "flag": True},
    {"score": 0.1, "mixed": [1, 2.5], "large": [1e300, -math.inf, math.nan]},
    {"empty": []},
]


def example_of(row):
    example = tf.train.Example()
    for name, value in row.items():
        values = value if isinstance(value, list) else [value]
        feature = example.features.feature[name]
        if all(isinstance(item, str | bytes) for item in values):
            encoded = (v.encode() if isinstance(v, str) else v for v in values)
            feature.bytes_list.value.extend(encoded)
        elif all(isinstance(item, int) for item in values):
            feature.int64_list.value.extend(values)
        else:
            feature.float_list.value.extend(values)
    return example


@pytest.mark.parametrize("row", ROWS)
def test_bytes_are_those_of_tensorflow(row):
    expected = example_of(row).SerializeToString(deterministic=True)
    assert example_records.encode_example(row) == expected


def test_row_without_features_is_an_example():
    encoded = example_records.encode_example({})
    assert not tf.train.Example.FromString(encoded).features.feature


@pytest.mark.parametrize(
    "row", [{"a": None}, {"a": object()}, {"a": [1.0, "b"]}, {"a": 2**63}, {1: "a"}]
)
def test_value_of_another_type_is_refused(row):
    with pytest.raises((AttributeError, OverflowError, TypeError)):
        example_records.encode_example(row)


def test_records_are_those_of_tensorflow(tmp_path):
    contents = [b"", b"a", b"\0" * 300, bytes(range(256))]
    with tf.io.TFRecordWriter(str(tmp_path / "expected")) as writer:
        for content in contents:
            writer.write(content)
    records = b"".join(map(example_records.encode_record, contents))
    assert records == (tmp_path / "expected").read_bytes()
    overhead = example_records.FRAME_BYTES * len(contents)
    assert len(records) == sum(map(len, contents)) + overhead
    (tmp_path / "records").write_bytes(records)
    dataset = tf.data.TFRecordDataset(str(tmp_path / "records"))
    assert list(dataset.as_numpy_iterator()) == contents
