"""Records that vanish before ExampleGen reads them are refused by name."""

import re

import pytest
import tensorflow as tf
from tfx import v1 as tfx
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components import example_gen
from tests.refusals import refused

pytestmark = pytest.mark.slow

NAME = "E-data-changed"
SHARDS = ("data-00000-of-00002.tfrecord", "data-00001-of-00002.tfrecord")
OTHERS = ("a.tfrecord", "b.tfrecord")


def write(directory, names):
    """Writes files of one record each; returns their paths."""
    paths = [f"{directory}/train/{name}" for name in names]
    if "://" not in str(directory):
        (directory / "train").mkdir(parents=True)
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            writer.write(tf.train.Example().SerializeToString())
    return paths


def describe(directory, count=None):
    split = tfx.proto.Input.Split(name="train", pattern="train/*.tf*record*")
    config = count and example_gen.describe_files("hash", {"train": count})
    return {
        "input_base": str(directory),
        "input_config": proto_utils.proto_to_json(tfx.proto.Input(splits=[split])),
        "output_config": proto_utils.proto_to_json(tfx.proto.Output()),
        "output_data_format": 6,
        "output_file_format": 5,
        "custom_config": config and proto_utils.proto_to_json(config),
    }


def execute(properties, output):
    examples = standard_artifacts.Examples()
    examples.uri = str(output)
    example_gen.Executor().Do({}, {"examples": [examples]}, properties)


def count_records(output):
    paths = tf.io.gfile.glob(f"{output}/Split-train/*")
    return sum(1 for _ in tf.data.TFRecordDataset(paths, "GZIP"))


@pytest.mark.parametrize("names", [SHARDS, OTHERS])
def test_each_file_is_read(tmp_path, names):
    write(tmp_path / "data", names)
    execute(describe(tmp_path / "data", 2), tmp_path / "out")
    assert count_records(tmp_path / "out") == 2


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize(
    ("names", "count", "left", "setting"),
    [
        (SHARDS, None, 1, SHARDS[1]),
        (SHARDS, None, 0, "*.tf*record*"),
        (OTHERS, 2, 1, "*.tf*record*"),
        (OTHERS, 2, 0, "*.tf*record*"),
    ],
)
def test_files_that_vanished_since_the_check_are_refused_by_name(
    tmp_path, request, is_remote, names, count, left, setting
):
    data = request.getfixturevalue("bucket") if is_remote else tmp_path / "data"
    for path in write(data, names)[left:]:
        tf.io.gfile.remove(path)
    with refused(NAME, setting=f"{data}/train/{setting}") as caught:
        execute(describe(data, count), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("fails", [True, False])
def test_file_that_vanishes_while_others_are_read_is_refused(
    tmp_path, monkeypatch, fails
):
    paths = write(tmp_path / "data", OTHERS)

    def read(*_):
        tf.io.gfile.remove(paths[1])
        if fails:
            raise FileNotFoundError(paths[1])

    monkeypatch.setattr(example_gen.executor.Executor, "Do", read)
    got = re.compile("2 files when the run started, 1 now")
    with refused(NAME, got=got):
        execute(describe(tmp_path / "data", 2), tmp_path / "out")


def test_other_error_of_the_reader_is_raised(tmp_path):
    (path,) = write(tmp_path / "data", OTHERS[:1])
    with open(path, "r+b") as file:
        file.write(b"damaged")
    with pytest.raises(Exception, match="TFRecord"):
        execute(describe(tmp_path / "data", 1), tmp_path / "out")
