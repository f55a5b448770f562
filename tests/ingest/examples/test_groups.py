"""The groups of a source that has splits."""

import pytest

from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest import examples as examples_lib
from pipeline.config.paths import OutputPaths
from tests import records

TASK = TaskConfig(text_columns=["text"], classes=["no", "yes"])
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
    with pytest.raises(UsageError) as refused:
        prepare(source)
    message = str(refused.value)
    assert f"1 value of data.group_column author is in train and {split}" in message
    assert f"'ann' in 2 rows of train and 3 of {split}" in message
    assert "leave data.group_column out" in message
    assert "\n" not in message
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert prepare(source, DataConfig())["train"] == 3


def test_first_of_many_groups_are_named(tmp_path):
    names = " ".join(f"author{number}" for number in range(20))
    source = write(tmp_path / "data", train=names, eval=names)
    message = (
        r"20 values of .*: 'author0' in 1 row of train and 1 of eval; .*; \.\.\.\."
    )
    with pytest.raises(UsageError, match=message):
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
    message = "data.group_column is author; the rows have text, label"
    with pytest.raises(UsageError, match=message):
        prepare(source)


def test_tfrecords_whose_groups_are_not_checked_are_refused(tmp_path):
    for split in ("train", "eval"):
        records.write(tmp_path / f"{split}.tfrecord", [records.example(label=[1])])
    paths = OutputPaths(tmp_path / "output", "tiny")
    message = r"data\.group_column is author, but .* has TFRecords.*leave .* out"
    with pytest.raises(UsageError, match=message):
        examples_lib.resolve_examples(
            str(tmp_path), TASK, paths.examples, settings=BY_AUTHOR
        )
