"""The slices by columns that are refused, or are too small to be judged."""

import pytest
from tensorflow.core.example.example_pb2 import Example

from contracts.settings.data import MOST_VALUES
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from modules.data import slice_judgment, slice_sizes
from modules.data.slice_columns import MISSING, read_value

TASK = TaskConfig()
SCORES = TaskConfig(label_range=[0.0, 5.0])


def judge(rows, thresholds=None, task=TASK):
    """Returns whether each finding about the column `region` is refused, and its text.

    Args:
      rows: Rows by value, of each label.
      thresholds: Those of the column.
      task: The task.
    """
    evaluator = EvaluatorConfig(
        split="eval", slice_thresholds={"region": thresholds} if thresholds else {}
    )
    counts = {}
    for value, numbers in rows.items():
        for label, number in enumerate(numbers):
            if number:
                slice_sizes.count_row(counts, value, label, task, number)
    found = slice_judgment.judge(
        {"region": counts}, Sections(task=task, evaluator=evaluator)
    )
    return [(finding.is_refused, finding.message) for finding in found]


def test_column_without_a_value_is_refused_with_what_to_do():
    ((is_refused, message),) = judge({MISSING: [9, 9]})
    assert is_refused
    assert message == (
        "eval: no row has a value of region, which data.slice_columns names; add the "
        "column to the data, correct its name, or leave it out"
    )


def test_column_with_many_values_is_refused_with_some_of_them():
    counts = {f"customer {row}": [1, 1] for row in range(1000)}
    ((is_refused, message),) = judge(counts)
    assert is_refused
    assert "region has more than 50 values, such as 'customer 0', 'cust" in message
    assert judge(dict([*counts.items()][:MOST_VALUES])) == []


def test_slices_without_thresholds_may_be_small():
    assert judge({"north": [1, 0], "south": [50, 50]}) == []


def test_small_slices_are_a_warning_with_their_rows():
    rows = {"north": [1, 0], "east": [9, 8], "south": [50, 50], MISSING: [2, 1]}
    ((is_refused, message),) = judge(rows, {"accuracy": 0.7})
    assert not is_refused
    assert message == (
        "eval: 3 of 4 slices by region have fewer than 30 rows (evaluator."
        "min_slice_rows): east (17), (missing) (3), north (1); evaluator."
        "slice_thresholds.region accuracy is not applied there: add rows, join values, "
        "or lower evaluator.min_slice_rows"
    )


def test_threshold_that_applies_to_no_slice_is_refused():
    ((is_refused, message),) = judge({"north": [9, 9]}, {"accuracy": 0.7})
    assert is_refused
    assert "evaluator.slice_thresholds.region accuracy decides nothing: add" in message


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("recall/equivalent", "rows of `equivalent`"),
        ("auc", "rows of the smaller class"),
        ("matthews", "rows with different labels"),
    ],
)
def test_only_rows_that_a_metric_counts_make_a_slice_large_enough(metric, kind):
    rows = {"north": [40, 0], "south": [50, 50]}
    ((is_refused, message),) = judge(rows, {metric: 0.7, "accuracy": 0.7})
    assert not is_refused
    assert f"1 of 2 slices by region have fewer than 30 {kind} (evalua" in message
    assert f": north (0); evaluator.slice_thresholds.region {metric} is not" in message


def test_correlation_needs_different_scores():
    rows = {"north": [0, 40], "south": [50, 50, 50, 50]}
    ((is_refused, message),) = judge(rows, {"pearson": 0.7}, SCORES)
    assert not is_refused
    assert "fewer than 30 rows with different labels" in message
    assert judge({"south": rows["south"]}, {"pearson": 0.7}, SCORES) == []
    (finding,) = judge({"south": [9, 9, 9]}, {"pearson": 0.7}, SCORES)
    assert "south (27)" in finding[1]


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
