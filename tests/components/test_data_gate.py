"""What stops a pipeline, and in which words."""

import functools

import apache_beam as beam
import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
from tfx import v1 as tfx

from components.data_gate import DataAnomaliesError, DataGate
from pipeline.schema import build_schema
from pipeline.task import TaskConfig

SPLITS = ("train", "eval")
SPLIT_NAMES = '["train", "eval"]'
RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def example(index, **changes):
    columns = {
        "sentence1": [b"some text"],
        "sentence2": [b"other text"],
        "label": [index % 2],
        "idx": [index],
        **changes,
    }
    features = {}
    for name, values in columns.items():
        if not values:
            feature = tf.train.Feature()
        elif isinstance(values[0], bytes):
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        else:
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        features[name] = feature
    return tf.train.Example(features=tf.train.Features(feature=features))


GOOD = [example(index) for index in range(8)]


def artifact(kind, uri):
    uri.mkdir(parents=True)
    found = kind()
    found.uri = str(uri)
    return found


@pytest.fixture
def gate(tmp_path):
    """Runs the component's function on examples of the train split."""

    def gate(train):
        types = tfx.types.standard_artifacts
        examples = artifact(types.Examples, tmp_path / "examples")
        schema = artifact(types.Schema, tmp_path / "schema")
        contract = build_schema(TaskConfig())
        tfdv.write_schema_text(contract, f"{schema.uri}/schema.pbtxt")
        anomalies = artifact(types.ExampleAnomalies, tmp_path / "anomalies")
        examples.split_names = anomalies.split_names = SPLIT_NAMES
        verdict = artifact(DataGate.SPEC_CLASS.OUTPUTS["verdict"].type, tmp_path / "v")
        for split, rows in zip(SPLITS, (train, GOOD), strict=True):
            folder = tmp_path / "examples" / f"Split-{split}"
            folder.mkdir()
            path = str(folder / "data.gz")
            with tf.io.TFRecordWriter(path, options="GZIP") as writer:
                for row in rows:
                    writer.write(row.SerializeToString())
            statistics = tfdv.generate_statistics_from_tfrecord(path)
            found = tfdv.validate_statistics(statistics, contract)
            (tmp_path / "anomalies" / f"Split-{split}").mkdir()
            target = tmp_path / "anomalies" / f"Split-{split}" / "SchemaDiff.pb"
            target.write_bytes(found.SerializeToString())
        run = functools.partial(
            DataGate.EXECUTOR_SPEC.executor_class._FUNCTION,
            examples=examples,
            schema=schema,
            anomalies=anomalies,
            verdict=verdict,
            id_column="idx",
            fingerprint="",
        )
        run(beam_pipeline=beam.Pipeline(runner=RUNNER))
        return (tmp_path / "v" / "verdict.json").read_text()

    return gate


def test_data_that_fit_pass(gate):
    assert gate(GOOD) == "[]"


def test_column_that_nobody_reads_is_noted_and_passes(gate):
    verdict = gate([example(index, extra=[b"x"]) for index in range(4)])
    assert "train: extra: New column" in verdict


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [*GOOD, example(80, label=[5]), example(81, label=[-1])],
            ["train: label: ", "idx 80: [5]"],
        ),
        (
            [*GOOD, example(82, sentence2=[])],
            [
                "train: sentence2: Multiple errors: ",
                "No value: in 1 examples (rows 82)",
            ],
        ),
        ([*GOOD, example(83, sentence1=[b"a", b"b"])], ["sentence1", "idx 83"]),
        ([example(84, label=[b"yes"])], ["train: label: "]),
        (
            [*GOOD, example(85, sentence1=[b" "]), example(86, sentence1=[b""])],
            ["train: sentence1: Empty text: in 2 examples (rows 85, 86)"],
        ),
        ([], ["train: (dataset): "]),
    ],
    ids=["label", "missing", "two values", "wrong type", "empty text", "empty split"],
)
def test_data_that_do_not_fit_stop_it_with_column_kind_and_rows(gate, rows, expected):
    with pytest.raises(DataAnomaliesError) as caught:
        gate(rows)
    for text in expected:
        assert text in str(caught.value)
