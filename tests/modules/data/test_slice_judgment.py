"""The columns to slice by that are refused, and the sizes of slices."""

import pytest
from tensorflow.core.example.example_pb2 import Example

from contracts.settings.data import MOST_VALUES
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from modules.data import slice_judgment, slice_sizes
from modules.data.slice_columns import MISSING, read_value


def judge(rows):
    """Returns whether each finding about the column `region` is refused, and its text.

    Args:
      rows: Rows by value.
    """
    counts = {value: {0.0: number} for value, number in rows.items()}
    settings = Sections(evaluator=EvaluatorConfig(split="eval"))
    found = slice_judgment.judge({"region": counts}, settings)
    return [(finding.is_refused, finding.message) for finding in found]


def test_column_without_a_value_is_refused_with_what_to_do():
    ((is_refused, message),) = judge({MISSING: 18})
    assert is_refused
    assert message == (
        "eval: no row has a value of region, which data.slice_columns names; add the "
        "column to the data, correct its name, or leave it out"
    )


def test_column_with_many_values_is_refused_with_some_of_them():
    counts = {f"customer {row}": 2 for row in range(1000)}
    ((is_refused, message),) = judge(counts)
    assert is_refused
    assert "region has more than 50 values, such as 'customer 0', 'cust" in message
    assert judge(dict([*counts.items()][:MOST_VALUES])) == []


def test_values_of_any_type_name_a_slice():
    example = Example()
    features = example.features.feature
    features["text"].bytes_list.value.append("Köln".encode())
    features["bad"].bytes_list.value.append(b"\xff")
    features["number"].int64_list.value.append(2_000_000_019)
    features["share"].float_list.value.append(0.1)
    features["several"].bytes_list.value.extend([b"a", b"b"])
    features["empty"].bytes_list.SetInParent()
    names = ("text", "bad", "number", "share", "several", "empty", "absent")
    assert [read_value(example, name) for name in names] == [
        *("Köln", "\ufffd", "2000000019", "0.1", "a, b", MISSING, MISSING)
    ]


def test_rows_of_a_slice_count_for_each_of_several_labels():
    task = TaskConfig(kind="multilabel", classes=["joy", "love"])
    counts = {}
    for row in range(60):
        label = [int(row < 20), int(row < 10)]
        slice_sizes.count_row(counts, "north", label, task)
    north = counts["north"]
    assert slice_sizes.count_deciding("accuracy", north, task) == (60, "rows")
    assert slice_sizes.count_deciding("micro_f1", north, task) == (30, "labels")
    assert slice_sizes.count_deciding("f1/love", north, task) == (10, "rows of `love`")
    assert slice_sizes.count_deciding("macro_f1", north, task)[0] == 26
    auc = slice_sizes.count_deciding("auc/joy", north, task)
    assert auc == (20, "rows with `joy`")


@pytest.mark.parametrize("label", [[0, 0], [0, 1]])
def test_macro_f1_of_a_slice_without_a_label_counts_no_row(label):
    """The label counts 0 whatever a model predicts, and no model reaches 1."""
    task = TaskConfig(kind="multilabel", classes=["joy", "love"])
    counts = {}
    slice_sizes.count_row(counts, "north", label, task, rows=50)
    rows, what = slice_sizes.count_deciding("macro_f1", counts["north"], task)
    assert (rows, what) == (0, "rows of the rarest label")


def test_auc_of_a_frequent_label_counts_the_rows_without_it():
    task = TaskConfig(kind="multilabel", classes=["joy", "love"])
    counts = {}
    slice_sizes.count_row(counts, "north", [1, 0], task, rows=990)
    slice_sizes.count_row(counts, "north", [0, 1], task, rows=10)
    auc = slice_sizes.count_deciding("auc/joy", counts["north"], task)
    assert auc == (10, "rows without `joy`")
