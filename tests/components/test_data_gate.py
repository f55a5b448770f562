"""The data that stops a pipeline, and the reported reasons.

A run on Beam takes seconds, so all faults of a task are the splits of one run.
"""

import functools
import json
import math

import apache_beam as beam
import pytest
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.statistics import stats_impl
from tfx import v1 as tfx
from tfx_bsl.coders import example_coder

from components.data_gate import DataAnomaliesError, DataGate
from modules.config.task import TaskConfig
from pipeline.inputs.schema import build_schema
from tests import records

pytestmark = pytest.mark.slow

RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def example(index, **changes):
    columns = {
        "sentence1": [b"some text"],
        "sentence2": [b"other text"],
        "label": [index % 2],
        "idx": [index],
    }
    return records.example(**{**columns, **changes})


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


PAIRS = [example(index) for index in range(8)]
SCORES = [example(index, label=[index / 4]) for index in range(8)]
TOKENS = [tokenized(index) for index in range(8)]

PAIRS_TASK = TaskConfig()
SCORES_TASK = TaskConfig(label_range=[0, 5])
TOKENS_TASK = TaskConfig(input="tokenized")
WEIGHTED_TASK = TaskConfig(weight_column="weight")
WEIGHTED = [example(index, weight=[index / 4]) for index in range(8)]


def generate_statistics(rows):
    """Returns the statistics that StatisticsGen writes, without a run of Beam."""
    decoder = example_coder.ExamplesToRecordBatchDecoder()
    batch = decoder.DecodeBatch([row.SerializeToString() for row in rows])
    return stats_impl.generate_statistics_in_memory(batch)


def run_gate(root, splits, task, contract=None):
    """Runs the component on the rows of each split; returns the verdict."""
    types = tfx.types.standard_artifacts
    artifacts = {
        "examples": types.Examples(),
        "schema": types.Schema(),
        "anomalies": types.ExampleAnomalies(),
        "verdict": DataGate.SPEC_CLASS.OUTPUTS["verdict"].type(),
    }
    for name, artifact in artifacts.items():
        artifact.uri = str(root / name)
        (root / name).mkdir()
    contract = contract or build_schema(task)
    tfdv.write_schema_text(contract, str(root / "schema" / "schema.pbtxt"))
    for name in ("examples", "anomalies"):
        artifacts[name].split_names = json.dumps(list(splits))
    for split, rows in splits.items():
        path = root / "examples" / f"Split-{split}" / "data.gz"
        records.write(path, rows)
        anomalies = tfdv.validate_statistics(generate_statistics(rows), contract)
        directory = root / "anomalies" / f"Split-{split}"
        directory.mkdir()
        (directory / "SchemaDiff.pb").write_bytes(anomalies.SerializeToString())
    DataGate.EXECUTOR_SPEC.executor_class._FUNCTION(
        **artifacts,
        id_column=task.id_column,
        fingerprint="",
        beam_pipeline=beam.Pipeline(runner=RUNNER),
    )
    return json.loads((root / "verdict" / "verdict.json").read_text())


def find_faults(root, splits, task, contract=None):
    """Returns the lines of the error that stops the run, by split."""
    with pytest.raises(DataAnomaliesError) as caught:
        run_gate(root, splits, task, contract)
    _, *lines = str(caught.value).split("\n  ")
    faults = {split: [] for split in splits}
    for line in lines:
        faults[line.partition(": ")[0]].append(line)
    return faults


def test_matching_data_pass_and_an_unknown_column_is_reported(tmp_path):
    extra = [example(index, extra=[b"x"]) for index in range(4)]
    (note,) = run_gate(tmp_path, {"train": PAIRS, "extra": extra}, PAIRS_TASK)
    assert note.startswith("extra: extra: New column")


def test_scores_within_their_range_pass(tmp_path):
    edges = [example(8, label=[0.0]), example(9, label=[5.0])]
    assert run_gate(tmp_path, {"train": [*SCORES, *edges]}, SCORES_TASK) == []


def test_tokenized_examples_pass_with_unknown_columns_and_without_ids(tmp_path):
    without_ids = [tokenized(index, example_id=None) for index in range(8)]
    splits = {"train": TOKENS, "nameless": without_ids}
    notes = run_gate(tmp_path, splits, TOKENS_TASK)
    assert [note.partition(": New column")[0] for note in notes] == [
        "train: is_real_example",
        "nameless: is_real_example",
    ]


# By task: the rows of each split. Faults of several columns share a split.
FAULTY = {
    "pairs": (
        PAIRS_TASK,
        {
            "clean": PAIRS,
            "rows": [
                *PAIRS,
                *(example(80, label=[5]), example(81, label=[-1])),
                example(82, sentence2=[]),
                example(83, sentence1=[b"a", b"b"]),
                *(example(85, sentence1=[b" "]), example(86, sentence1=[b""])),
                example(87, sentence2=["\u00a0\u3000\u2003".encode()]),
                example(88, sentence2=["\u200b\ufeff\x00".encode()]),
                example(89, sentence2=["\u00e9".encode()]),
                example(90, sentence2=["\ufffd".encode()]),
            ],
            "types": [
                example(index, label=[b"yes"], sentence1=[1]) for index in (1, 2)
            ],
            "empty": [],
        },
    ),
    "scores": (
        SCORES_TASK,
        {
            "clean": SCORES,
            "range": [*SCORES, example(80, label=[5.5]), example(81, label=[-0.25])],
            "nan": [*SCORES, example(82, label=[float("nan")])],
            "types": [example(83, label=[3])],
        },
    ),
    "tokens": (
        TOKENS_TASK,
        {
            "clean": TOKENS,
            "rows": [
                *TOKENS,
                tokenized(80, label_ids=[5]),
                tokenized(81, input_ids=None),
            ],
            "nothing": [tokenized(i, input_ids=None, example_id=None) for i in (1, 2)],
            "types": [tokenized(82, input_ids=[b"the cat"])],
        },
    ),
}


def test_weights_are_needed_in_training_alone(tmp_path):
    assert run_gate(tmp_path, {"train": WEIGHTED, "eval": PAIRS}, WEIGHTED_TASK) == []


def test_missing_and_negative_weights_of_training_stop_it(tmp_path):
    splits = {
        "train": [*WEIGHTED, example(80), example(81, weight=[-0.5])],
        "eval": [*PAIRS, example(82, weight=[math.nan])],
    }
    faults = find_faults(tmp_path, splits, WEIGHTED_TASK)
    assert "train: weight: No value: in 1 examples (rows 80)" in faults["train"]
    assert any("idx 81: [-0.5]" in line for line in faults["train"])
    (line,) = faults["eval"]
    assert line.startswith("eval: weight: ")


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """Returns the lines of the error by split, from one run per task."""

    @functools.cache
    def lines(kind):
        task, splits = FAULTY[kind]
        return find_faults(tmp_path_factory.mktemp(kind), splits, task)

    return lines


@pytest.mark.parametrize("kind", FAULTY)
def test_split_without_a_fault_is_not_in_the_error(lines, kind):
    assert lines(kind)["clean"] == []


@pytest.mark.parametrize(
    ("kind", "split", "texts"),
    [
        ("pairs", "rows", ["rows: label: ", "idx 80: [5]", "idx 81: [-1]"]),
        ("pairs", "rows", ["rows: sentence2: Multiple errors: "]),
        ("pairs", "rows", ["rows: sentence2: No value: in 1 examples (rows 82)"]),
        ("pairs", "rows", ["rows: sentence1: ", "idx 83: [b'a', b'b']"]),
        ("pairs", "rows", ["sentence1: Empty text: in 2 examples (rows 85, 86)"]),
        ("pairs", "rows", ["sentence2: Empty text: in 3 examples (rows 87, 88, 90)"]),
        ("pairs", "types", ["types: label: "]),
        ("pairs", "types", ["types: sentence1: "]),
        ("pairs", "empty", ["empty: (dataset): "]),
        ("scores", "range", ["range: label: ", "idx 80: [5.5]", "idx 81: [-0.25]"]),
        ("scores", "nan", ["nan: label: ", "NaN"]),
        ("scores", "types", ["types: label: "]),
        ("tokens", "rows", ["rows: label_ids: ", "example_id 80: [5]"]),
        ("tokens", "rows", ["rows: input_ids: No value: in 1 examples (rows 81)"]),
        ("tokens", "nothing", ["nothing: input_ids: "]),
        ("tokens", "types", ["types: input_ids: "]),
    ],
)
def test_fault_stops_it_with_column_kind_and_rows(lines, kind, split, texts):
    assert any(all(text in line for text in texts) for line in lines(kind)[split])


def test_rows_without_label_or_text_stop_it_under_a_curated_schema(tmp_path):
    contract = build_schema(PAIRS_TASK)
    for feature in contract.feature:
        feature.ClearField("shape")
        feature.value_count.min = feature.value_count.max = 1
    rows = [
        *(example(80, label=[]), example(81, label=[])),
        *(example(82, sentence1=[]), example(83, sentence1=[])),
    ]
    del rows[1].features.feature["label"], rows[3].features.feature["sentence1"]
    splits = {"train": [*PAIRS, *rows], "eval": PAIRS}
    lines = find_faults(tmp_path, splits, PAIRS_TASK, contract)["train"]
    assert "train: label: No value: in 2 examples (rows 80, 81)" in lines
    assert "train: sentence1: No value: in 2 examples (rows 82, 83)" in lines
