"""Finding the splits of existing TFRecords."""

import pytest
from tfx import v1 as tfx
from tfx.components.example_gen.import_example_gen import executor

from pipeline.config.errors import UsageError
from pipeline.inputs import examples
from tests import records

ROWS = {
    "train": [records.example(idx=[1]), records.example(idx=[2])],
    "eval": [records.example(idx=[3])],
    "eval_mismatched": [records.example(idx=[4])],
}
RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def ingest(directory, tmp_path):
    """Runs ImportExampleGen's executor; returns the ids of each split."""
    output = tfx.types.standard_artifacts.Examples()
    output.uri = str(tmp_path / "examples")
    splits = [
        tfx.proto.Input.Split(name=split, pattern=pattern)
        for split, pattern in directory.patterns.items()
    ]
    component = tfx.components.ImportExampleGen(
        input_base=directory.directory, input_config=tfx.proto.Input(splits=splits)
    )
    properties = dict(component.spec.exec_properties)
    context = executor.Executor.Context(
        beam_pipeline_args=[f"--runner={RUNNER}"],
        tmp_dir=str(tmp_path / "tmp"),
        unique_id="1",
    )
    run = executor.Executor(context)
    run.Do({}, {"examples": [output]}, properties)
    return {
        split: sorted(
            row["idx"][0] for row in records.read(f"{output.uri}/Split-{split}/*.gz")
        )
        for split in directory.patterns
    }


@pytest.mark.parametrize(
    "names",
    [
        {s: [f"{s}/data-00000-of-00001.tfrecord.gz"] for s in ROWS},
        {s: [f"{s}.tfrecord"] for s in ROWS},
        {
            "train": [f"train-0000{i}-of-00002.tfrecord.gz" for i in (0, 1)],
            "eval": ["validation_matched.tfrecord.gz"],
            "eval_mismatched": ["validation_mismatched.tfrecord.gz"],
        },
        {s: [f"MNLI_{s}.tf_record"] for s in ROWS},
    ],
    ids=["folders", "uncompressed", "shards", "as the Model Garden's documents"],
)
def test_every_split_is_found_and_read_once_whatever_its_files_are_called(
    tmp_path, names
):
    for split, files in names.items():
        for index, file in enumerate(files):
            rows = ROWS[split][index :: len(files)]
            records.write(tmp_path / "records" / file, rows)
    directory = examples.find_examples(str(tmp_path / "records"))
    assert ingest(directory, tmp_path) == {
        "train": [1, 2],
        "eval": [3],
        "eval_mismatched": [4],
    }


@pytest.mark.parametrize(
    ("file", "called", "state"),
    [
        ("train.tfrecord.gz", "train.tfrecord", "gzipped"),
        ("train.tfrecord", "train.tfrecord.gz", "not gzipped"),
    ],
)
def test_file_whose_name_lies_about_its_compression_is_refused(
    tmp_path, file, called, state
):
    records.write(tmp_path / "eval.tfrecord", ROWS["eval"])
    path = records.write(tmp_path / file, ROWS["train"])
    (tmp_path / file).rename(tmp_path / called)
    with pytest.raises(UsageError, match=rf"{called} is {state}; \.gz must end"):
        examples.find_examples(str(tmp_path))
    assert path


def test_records_of_two_tasks_in_one_directory_are_refused(tmp_path):
    for task in ("MRPC", "RTE"):
        records.write(tmp_path / f"{task}_train.tf_record", ROWS["train"])
    message = r"MRPC_train\.tf_record and RTE_train\.tf_record, all of the split train"
    with pytest.raises(UsageError, match=message):
        examples.find_examples(str(tmp_path))


@pytest.mark.parametrize(
    "names",
    [
        ("eval.tfrecord", "dev.tfrecord"),
        ("eval/data.tfrecord", "validation-00000-of-00001.tfrecord"),
        ("eval/data.tfrecord", "eval.tfrecord"),
        ("eval.tfrecord", "MRPC_dev.tf_record"),
    ],
    ids=["names", "layouts and names", "layouts", "a task's"],
)
def test_two_names_of_one_split_are_refused(tmp_path, names):
    for name in ("train.tfrecord", *names):
        records.write(tmp_path / name, ROWS["eval"])
    with pytest.raises(UsageError, match="all of the split eval; keep one") as caught:
        examples.find_examples(str(tmp_path))
    assert all(name in str(caught.value) for name in names)
