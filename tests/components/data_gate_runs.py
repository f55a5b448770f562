"""Runs of DataGate on rows made here, as the component runs them."""

import json

import apache_beam as beam
import pytest
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.statistics import stats_impl
from tfx import v1 as tfx
from tfx_bsl.coders import example_coder

from components.data_gate import DataAnomaliesError, DataGate
from contracts.packing import Packing
from contracts.settings.data import DataConfig
from contracts.settings.data_gate import DataGateConfig
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from modules.data import source_rows
from pipeline.inputs.schema import build_schema
from tests import records, tiny

RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def example(index, **changes):
    columns = {
        "sentence1": [b"some text %d" % index],
        "sentence2": [b"other text"],
        "label": [index % 2],
        "idx": [index],
    }
    return records.example(**{**columns, **changes})


def tokenized(index, **changes):
    columns = {
        "input_ids": [2, 6 + index, 3, 0],
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


def generate_statistics(rows):
    """Returns the statistics that StatisticsGen writes, without a run of Beam."""
    decoder = example_coder.ExamplesToRecordBatchDecoder()
    batch = decoder.DecodeBatch([row.SerializeToString() for row in rows])
    return stats_impl.generate_statistics_in_memory(batch)


def run_gate(
    root,
    splits,
    task,
    contract=None,
    *,
    span=None,
    origins=(),
    thresholds=None,
    gate_split="eval",
    columns=(),
    checks=None,
    redact=None,
    file="data.gz",
    **limits,
):
    """Runs the component on the rows of each split; returns the verdict.

    The source is `root / "source"`, with the rows in the given order. The Examples have
    another order, as those of ExampleGen. Splits in `origins` have records from a text
    file, from its line 2 on. `limits` differ from the defaults.
    `checks` has the checks that judge the data, as `registry.parse` reads them, and
    `redact` the function of `Redaction.parse`.
    """
    types = tfx.types.standard_artifacts
    artifacts = {
        "examples": types.Examples(),
        "statistics": types.ExampleStatistics(),
        "schema": types.Schema(),
        "anomalies": types.ExampleAnomalies(),
        "verdict": DataGate.SPEC_CLASS.OUTPUTS["verdict"].type(),
    }
    for name, artifact in artifacts.items():
        artifact.uri = str(root / name)
        (root / name).mkdir()
    contract = contract or build_schema(task)
    source = str(root / "source")
    settings = Sections(
        name="tiny",
        task=task,
        data=DataConfig(slice_columns=[*columns]),
        # The tiny encoder has no word of the texts.
        data_gate=DataGateConfig(**{"warn_unreadable": 1.0, **limits}),
        preprocessing=Packing(max_seq_length=128),
        evaluator=EvaluatorConfig(split=gate_split),
    )
    tfdv.write_schema_text(contract, str(root / "schema" / "schema.pbtxt"))
    for name in ("examples", "statistics", "anomalies"):
        artifacts[name].split_names = json.dumps(list(splits))
    for split, rows in splits.items():
        path = root / "examples" / f"Split-{split}" / file
        records.write(path, rows[::-1])
        records.write(root / "source" / split / "data.tfrecord.gz", rows)
        if split in origins:
            with source_rows.LocationWriter(root / "source" / split) as writer:
                for line in range(2, 2 + len(rows)):
                    writer.add(f"/data/{split}.tsv", line)
        statistics = generate_statistics(rows)
        path = root / "statistics" / f"Split-{split}" / "FeatureStats.pb"
        path.parent.mkdir()
        path.write_bytes(statistics.SerializeToString())
        anomalies = tfdv.validate_statistics(statistics, contract)
        directory = root / "anomalies" / f"Split-{split}"
        directory.mkdir()
        (directory / "SchemaDiff.pb").write_bytes(anomalies.SerializeToString())
    DataGate.EXECUTOR_SPEC.executor_class._FUNCTION(
        **artifacts,
        settings=settings.model_dump_json(include=DataGate.READS),
        thresholds=json.dumps(thresholds or {}),
        source=source,
        patterns=json.dumps({split: f"{split}/*.tf*record*" for split in splits}),
        spans=json.dumps({} if span is None else {source: span}),
        profiles=str(root.parent / "profiles"),
        card=json.dumps({"source": "/data", "fingerprint": None}),
        vocab_file=str(tiny.write_encoder(root / "encoder") / "vocab.txt"),
        vocab_fingerprint="",
        fingerprint="",
        checks=json.dumps(checks or {}),
        redact=json.dumps(redact),
        beam_pipeline=beam.Pipeline(runner=RUNNER),
    )
    return json.loads((root / "verdict" / "verdict.json").read_text())


def find_faults(root, splits, task, contract=None, **settings):
    """Returns the lines of the error that stops the run, by split."""
    with pytest.raises(DataAnomaliesError) as caught:
        run_gate(root, splits, task, contract, **settings)
    _, *lines = caught.value.got.split("\n  ")
    faults = {split: [] for split in splits}
    for line in lines:
        faults[line.partition(": ")[0]].append(line)
    return faults
