"""Finding the splits of existing TFRecords."""

import re

import apache_beam as beam
import pytest
from apache_beam.testing import util
from tfx import v1 as tfx
from tfx.components.example_gen.import_example_gen import executor

from ingest import examples
from tests import records
from tests.refusals import refused

pytestmark = pytest.mark.slow

ROWS = {
    "train": [records.example(idx=[1]), records.example(idx=[2])],
    "eval": [records.example(idx=[3])],
    "eval_mismatched": [records.example(idx=[4])],
}
RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


LAYOUTS = {
    "folders": {s: [f"{s}/data-00000-of-00001.tfrecord.gz"] for s in ROWS},
    "uncompressed": {s: [f"{s}.tfrecord"] for s in ROWS},
    "shards": {
        "train": [f"train-0000{i}-of-00002.tfrecord.gz" for i in (0, 1)],
        "eval": ["validation_matched.tfrecord.gz"],
        "eval_mismatched": ["validation_mismatched.tfrecord.gz"],
    },
    "model garden": {s: [f"MNLI_{s}.tf_record"] for s in ROWS},
}
IDS = {"train": [1, 2], "eval": [3], "eval_mismatched": [4]}


def read_id(example):
    return example.features.feature["idx"].int64_list.value[0]


def test_example_gen_reads_every_row_of_every_layout_once(tmp_path):
    reader = executor.Executor().GetInputSourceToExamplePTransform()
    with beam.Pipeline(runner=RUNNER) as pipeline:
        for layout, names in LAYOUTS.items():
            for split, files in names.items():
                for index, file in enumerate(files):
                    rows = ROWS[split][index :: len(files)]
                    records.write(tmp_path / layout / file, rows)
            directory = examples.find_examples(str(tmp_path / layout))
            assert directory.patterns.keys() == ROWS.keys()
            for split, pattern in directory.patterns.items():
                properties = {
                    "input_base": directory.directory,
                    "output_data_format": tfx.proto.PayloadFormat.FORMAT_TF_EXAMPLE,
                }
                name = f"{layout} {split}"
                ids = (
                    pipeline
                    | f"Read {name}" >> reader(properties, pattern)
                    | f"Ids {name}" >> beam.Map(read_id)
                )
                util.assert_that(ids, util.equal_to(IDS[split]), f"Check {name}")


@pytest.mark.parametrize(
    ("file", "called", "got", "advice"),
    [
        ("train.tfrecord.gz", "train.tfrecord", "gzipped", "add .gz to its name"),
        (
            "train.tfrecord",
            "train.tfrecord.gz",
            "not gzipped",
            "remove .gz from its name",
        ),
    ],
)
def test_file_whose_name_does_not_fit_its_compression_is_refused(
    tmp_path, file, called, got, advice
):
    records.write(tmp_path / "eval.tfrecord", ROWS["eval"])
    records.write(tmp_path / file, ROWS["train"])
    path = str((tmp_path / file).rename(tmp_path / called))
    with refused("E-format-unknown", setting=path, got=f"it is {got}", advice=advice):
        examples.find_examples(str(tmp_path))


@pytest.mark.parametrize(
    "names",
    [
        ("eval.tfrecord", "dev.tfrecord"),
        ("eval/data.tfrecord", "validation-00000-of-00001.tfrecord"),
        ("eval/data.tfrecord", "eval.tfrecord"),
        ("eval.tfrecord", "MRPC_dev.tf_record"),
        ("MRPC_eval.tf_record", "RTE_eval.tf_record"),
    ],
    ids=["names", "layouts and names", "layouts", "a task's", "two tasks'"],
)
def test_two_names_of_one_split_are_refused(tmp_path, names):
    for name in ("train.tfrecord", *names):
        records.write(tmp_path / name, ROWS["eval"])
    both = re.compile("^it has .* and .*, which are both the split eval$")
    with refused("E-split-unclear", setting=str(tmp_path), got=both) as caught:
        examples.find_examples(str(tmp_path))
    assert all(name in caught.value.got for name in names)


def test_directory_that_tfx_reads_as_a_pattern_is_refused(tmp_path):
    with refused("E-path-pattern", setting="data.source"):
        examples.find_examples(str(tmp_path / "records[1]"))
