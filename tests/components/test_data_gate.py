"""What stops a pipeline, and in which words."""

import functools

import apache_beam as beam
import pytest
import tensorflow_data_validation as tfdv
from tfx import v1 as tfx

from components.data_gate import DataAnomaliesError, DataGate
from modules.config.task import TaskConfig
from pipeline.inputs.schema import build_schema
from tests import records

SPLITS = ("train", "eval")
SPLIT_NAMES = '["train", "eval"]'
RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def example(index, **changes):
    columns = {
        "sentence1": [b"some text"],
        "sentence2": [b"other text"],
        "label": [index % 2],
        "idx": [index],
    }
    return records.example(**{**columns, **changes})


GOOD = [example(index) for index in range(8)]


def artifact(kind, uri):
    uri.mkdir(parents=True)
    found = kind()
    found.uri = str(uri)
    return found


@pytest.fixture
def gate(tmp_path):
    """Runs the component's function on examples of the train split."""

    def gate(train, good=GOOD, contract=None, **task):
        types = tfx.types.standard_artifacts
        examples = artifact(types.Examples, tmp_path / "examples")
        schema = artifact(types.Schema, tmp_path / "schema")
        contract = contract or build_schema(TaskConfig(**task))
        tfdv.write_schema_text(contract, f"{schema.uri}/schema.pbtxt")
        anomalies = artifact(types.ExampleAnomalies, tmp_path / "anomalies")
        examples.split_names = anomalies.split_names = SPLIT_NAMES
        verdict = artifact(DataGate.SPEC_CLASS.OUTPUTS["verdict"].type, tmp_path / "v")
        for split, rows in zip(SPLITS, (train, good), strict=True):
            path = tmp_path / "examples" / f"Split-{split}" / "data.gz"
            path = records.write(path, rows)
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
            id_column=TaskConfig(**task).id_column,
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
        (
            [
                *GOOD,
                example(87, sentence2=["\u00a0\u3000\u2003".encode()]),
                example(88, sentence2=["\u200b\ufeff\x00".encode()]),
                example(89, sentence2=["\u00e9".encode()]),
                example(90, sentence2=["\ufffd".encode()]),
            ],
            ["train: sentence2: Empty text: in 3 examples (rows 87, 88, 90)"],
        ),
        ([], ["train: (dataset): "]),
    ],
    ids=[
        "label",
        "missing",
        "two values",
        "wrong type",
        "empty text",
        "no visible text",
        "empty split",
    ],
)
def test_data_that_do_not_fit_stop_it_with_column_kind_and_rows(gate, rows, expected):
    with pytest.raises(DataAnomaliesError) as caught:
        gate(rows)
    for text in expected:
        assert text in str(caught.value)


def test_rows_without_label_or_text_stop_it_under_a_curated_schema(gate):
    contract = build_schema(TaskConfig())
    for feature in contract.feature:
        feature.ClearField("shape")
        feature.value_count.min = feature.value_count.max = 1
    rows = [
        *(example(80, label=[]), example(81, label=[])),
        *(example(82, sentence1=[]), example(83, sentence1=[])),
    ]
    del rows[1].features.feature["label"], rows[3].features.feature["sentence1"]
    with pytest.raises(DataAnomaliesError) as caught:
        gate([*GOOD, *rows], contract=contract)
    assert "train: label: No value: in 2 examples (rows 80, 81)" in str(caught.value)
    assert "sentence1: No value: in 2 examples (rows 82, 83)" in str(caught.value)


SCORE = {"label_range": [0, 5]}
RATED = [example(index, label=[index / 4]) for index in range(8)]


def test_scores_within_their_range_pass(gate):
    edges = [example(8, label=[0.0]), example(9, label=[5.0])]
    assert gate([*RATED, *edges], RATED, **SCORE) == "[]"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [*RATED, example(80, label=[5.5]), example(81, label=[-0.25])],
            ["train: label: ", "idx 80: [5.5]", "idx 81: [-0.25]"],
        ),
        ([*RATED, example(82, label=[float("nan")])], ["train: label: ", "NaN"]),
        ([example(83, label=[3])], ["train: label: "]),
    ],
    ids=["range", "not a number", "wrong type"],
)
def test_scores_that_do_not_fit_stop_it_with_column_kind_and_rows(gate, rows, expected):
    with pytest.raises(DataAnomaliesError) as caught:
        gate(rows, RATED, **SCORE)
    for text in expected:
        assert text in str(caught.value)


def tokenized(index, **changes):
    columns = {
        "input_ids": [2, 6, 3, 0],
        "input_mask": [1, 1, 1, 0],
        "segment_ids": [0, 0, 0, 0],
        "label_ids": [index % 2],
        "example_id": [index],
        "is_real_example": [1],
    }
    columns = {**columns, **changes}
    return records.example(**{k: v for k, v in columns.items() if v is not None})


TOKENIZED = {"input": "tokenized"}
IDS = [tokenized(index) for index in range(8)]


@pytest.mark.parametrize(
    "rows",
    [IDS, [tokenized(index, example_id=None) for index in range(8)]],
    ids=["with ids", "without ids"],
)
def test_tokenized_examples_pass_with_columns_that_nobody_reads(gate, rows):
    verdict = gate(rows, rows, **TOKENIZED)
    assert "train: is_real_example: New column" in verdict
    assert "example_id" not in verdict


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [*IDS, tokenized(80, label_ids=[5])],
            ["train: label_ids: ", "example_id 80: [5]"],
        ),
        (
            [*IDS, tokenized(81, input_ids=None)],
            ["train: input_ids: ", "No value: in 1 examples (rows 81)"],
        ),
        (
            [tokenized(i, input_ids=None, example_id=None) for i in range(3)],
            ["train: input_ids: "],
        ),
        ([tokenized(82, input_ids=[b"the cat"])], ["train: input_ids: "]),
    ],
    ids=["label", "missing", "missing everywhere", "text"],
)
def test_tokenized_examples_that_do_not_fit_stop_it(gate, rows, expected):
    with pytest.raises(DataAnomaliesError) as caught:
        gate(rows, IDS, **TOKENIZED)
    for text in expected:
        assert text in str(caught.value)
