"""The groups of a source that has splits."""

import re

import pytest

from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest import examples as examples_lib
from pipeline.config.paths import OutputPaths
from tests import records
from tests.refusals import refused

TASK = TaskConfig(text_columns=["text"], classes=["no", "yes"])
SHARED, COLUMN = "E-groups-across-splits", "data.group_column"
BY_AUTHOR = DataConfig(group_column="author")


def write(directory, suffix="", **groups):
    """Writes splits with a row for each group."""
    directory.mkdir()
    for split, names in groups.items():
        rows = [
            f"{split} {number},yes,{name}\n"
            for number, name in enumerate(names.split())
        ]
        text = "text,label,author\n" + "".join(rows) + suffix
        (directory / f"{split}.csv").write_text(text)
    return str(directory)


def prepare(source, settings=BY_AUTHOR):
    return examples_lib.prepare(source, f"{source} as records", TASK, settings=settings)


@pytest.mark.parametrize("split", ["eval", "test"])
def test_group_in_two_splits_is_refused_with_its_rows(tmp_path, split):
    groups = {"train": "ann ann bob", "eval": "cid", "test": "dan"}
    groups[split] += " ann ann ann"
    source = write(tmp_path / "data", **groups)
    got = f"in train and {split}: 'ann' in 2 rows of train and 3 of {split}"
    with refused(SHARED, setting=COLUMN, got=f"1 value of author is {got}"):
        prepare(source)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert prepare(source, DataConfig())["train"] == 3


def test_first_of_many_groups_are_named(tmp_path):
    names = " ".join(f"author{number}" for number in range(20))
    source = write(tmp_path / "data", train=names, eval=names)
    got = "^20 values of .*: 'author0' in 1 row of train and 1 of eval, .*, \\.\\.\\.$"
    with refused(SHARED, setting=COLUMN, got=re.compile(got)):
        prepare(source)


def test_groups_of_one_split_and_rows_without_a_group_are_accepted(tmp_path):
    source = write(
        tmp_path / "data", "no author,no,\n", train="ann ann bob", eval="cid"
    )
    assert prepare(source) == {"train": 4, "eval": 2}


def test_group_of_a_skipped_row_is_in_no_split(tmp_path):
    source = write(tmp_path / "data", "bad label,maybe,ann\n", train="ann", eval="cid")
    settings = DataConfig(group_column="author", on_bad_rows="skip")
    assert prepare(source, settings) == {"train": 1, "eval": 1}


def test_split_without_the_group_column_is_refused(tmp_path):
    source = write(tmp_path / "data", train="ann", eval="cid")
    (tmp_path / "data" / "eval.csv").write_text("text,label\na,no\n")
    with refused("E-column-missing", setting=COLUMN, allowed="text, label"):
        prepare(source)


def test_tfrecords_whose_groups_are_not_checked_are_refused(tmp_path):
    for split in ("train", "eval"):
        records.write(tmp_path / f"{split}.tfrecord", [records.example(label=[1])])
    paths = OutputPaths(tmp_path / "output", "tiny")
    got = re.compile("^author, but .* has TFRecords")
    with refused("E-settings-refused", setting=COLUMN, got=got):
        examples_lib.resolve_examples(
            str(tmp_path), TASK, paths.examples, settings=BY_AUTHOR
        )
