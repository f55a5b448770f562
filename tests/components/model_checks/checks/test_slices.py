"""The thresholds of slices, and their largest gap."""

import math

import numpy as np
import pytest

from components.model_checks.check import NotApplicable
from components.model_checks.checks.slices import SlicesCheck
from contracts.errors import SettingError
from contracts.records.evaluation import Slice
from contracts.settings.data import MOST_VALUES
from contracts.task.definition import TaskConfig
from modules.data import slice_sizes
from modules.data.slice_columns import MISSING
from tests.components.model_checks import toys

TASK = TaskConfig()
SCORES = TaskConfig(label_range=[0.0, 5.0])
REGIONS = [*["north"] * 40, *["east"] * 20, *[MISSING] * 40, *["south"] * 100]
ACCURACIES = {MISSING: 1.0, "east": 0.0, "north": 0.5, "south": 1.0}


def part(value, feature="region", **metrics):
    rows = REGIONS.count(value)
    metrics = metrics or {"accuracy": ACCURACIES[value], "recall/equivalent": 0.5}
    return Slice(feature=feature, value=value, rows=rows, metrics=metrics, champion={})


def check(thresholds=None, slices=None, **settings):
    """Returns the result of the slices of a split whose labels alternate."""
    toy = toys.Toy(
        task=TASK,
        rows={
            "eval": [
                (("a", "b"), row % 2, {"region": region})
                for row, region in enumerate(REGIONS)
            ]
        },
        facts={"slices": list(map(part, ACCURACIES)) if slices is None else slices},
    )
    bounds = {"region": thresholds} if thresholds else {}
    return toy.run(SlicesCheck(), thresholds=bounds, **settings)


def test_model_that_is_bad_in_a_slice_is_refused():
    """Slices of few rows are not judged, and rows without a value are one."""
    result = check({"accuracy": 0.7, "recall/equivalent": 0.4})
    assert result.status == "refused"
    result.name = "slices"
    assert result.message == (
        "in the slice region north (40 rows), by checks.slices.thresholds.region: "
        "accuracy is 0.5000, the threshold is 0.7000; add such rows to train, check "
        "their labels, or lower the threshold (checks.slices) [E-below-threshold]"
    )
    assert result.table.rows == [
        ["region (missing) (40 rows)", "accuracy", 1.0, 0.7],
        ["region north (40 rows)", "accuracy", 0.5, 0.7],  # 20 rows have the class
        ["region south (100 rows)", "accuracy", 1.0, 0.7],
        ["region south (100 rows)", "recall/equivalent", 0.5, 0.4],
    ]
    assert check({"accuracy": 0.7}, action="warn").status == "warning"
    assert check({"accuracy": 0.7}, min_rows=41).status == "passed"


def test_metric_that_is_not_finite_reaches_no_threshold():
    result = check({"auc": 0.1}, [part("south", accuracy=1.0)])
    assert "auc is nan, the threshold is 0.1000" in result.sentence


def test_message_names_three_slices_and_the_table_all():
    metrics = ["accuracy", "f1", "precision", "recall", "auc"]
    slices = [part("south", **dict.fromkeys(metrics, 0.5))]
    result = check(dict.fromkeys(metrics, 0.7), slices)
    assert result.sentence.count("in the slice region south") == 3
    assert result.sentence.endswith("; 2 more")
    assert len(result.table.rows) == 5


def test_largest_gap_is_between_slices_with_enough_rows():
    lengths = [
        part("north", "length", accuracy=0.8),
        part("south", "length", accuracy=0.7),
    ]
    result = check(slices=[*map(part, ACCURACIES), *lengths])
    assert result.status == "passed"
    assert result.sentence == (
        "the largest gap is 0.500: accuracy is 0.500 in the slice region north (40 "
        "rows) and 1.000 in region south (100 rows)"
    )
    assert result.figures == pytest.approx({"gap by region": 0.5, "gap by length": 0.1})
    names = [name for name, *_ in result.table.rows]
    assert names == sorted(names)
    assert not any("east" in name for name in names)  # 20 rows


def test_slices_that_cannot_be_compared_have_no_gap():
    with pytest.raises(NotApplicable, match="no slices"):
        check(slices=[])
    with pytest.raises(NotApplicable, match="no feature has two slices with 30 rows"):
        check(slices=[part("north"), part("east")])
    result = check({"accuracy": 0.1}, [part("north")])
    assert (result.status, result.sentence) == (
        "passed",
        "no slice is below its thresholds",
    )


def settings(thresholds, **others):
    return SlicesCheck.Settings(thresholds=thresholds, **others)


@pytest.mark.parametrize(
    ("thresholds", "setting", "reason"),
    [
        ({"place": {"f1": 0.5}}, "thresholds", "names 'place', which data.slice_col"),
        ({"region": {"loss": 0.5}}, "thresholds.region", "names 'loss'"),
        ({"region": {"f1": 50.0}}, "thresholds.region", "f1 is 50.0"),
        ({"region": {"f1": math.nan}}, "thresholds.region", "f1 is nan"),
    ],
)
def test_threshold_that_does_not_fit_the_task_is_refused(thresholds, setting, reason):
    with pytest.raises(SettingError, match=reason) as refused:
        SlicesCheck().validate(settings(thresholds), TASK, ["region"])
    assert refused.value.setting == setting
    SlicesCheck().validate(settings({"region": {"f1": 0.5}}), TASK, ["region"])


def judge(rows, thresholds, task=TASK):
    """Returns whether each finding about the column `region` is refused, and its text.

    Args:
      rows: Rows by value, of each label.
      thresholds: Those of the column.
      task: The task.
    """
    counts = {}
    for value, numbers in rows.items():
        for label in np.flatnonzero(numbers):
            slice_sizes.count_row(counts, value, float(label), task, numbers[label])
    found = SlicesCheck().judge_data(
        settings({"region": thresholds}), task, "eval", {"region": counts}, []
    )
    return [(finding.is_refused, finding.message) for finding in found]


def test_small_slices_are_a_warning_with_their_rows():
    rows = {"north": [1, 0], "east": [9, 8], "south": [50, 50], MISSING: [2, 1]}
    ((is_refused, message),) = judge(rows, {"accuracy": 0.7})
    assert not is_refused
    assert message == (
        "eval: 3 of 4 slices by region have fewer than 30 rows (checks.slices."
        "min_rows): east (17), (missing) (3), north (1); checks.slices.thresholds."
        "region accuracy is not applied there: add rows, join values, or lower "
        "checks.slices.min_rows"
    )


def test_threshold_that_applies_to_no_slice_is_refused():
    ((is_refused, message),) = judge({"north": [9, 9]}, {"accuracy": 0.7})
    assert is_refused
    assert "checks.slices.thresholds.region accuracy decides nothing: add" in message


def test_column_that_makes_no_slices_is_not_judged():
    assert judge({MISSING: [9, 9]}, {"accuracy": 0.7}) == []
    many = {str(row): [1, 1] for row in range(MOST_VALUES + 1)}
    assert judge(many, {"accuracy": 0.7}) == []


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
    assert f"1 of 2 slices by region have fewer than 30 {kind} (checks" in message
    assert f": north (0); checks.slices.thresholds.region {metric} is not" in message


def test_correlation_needs_different_scores():
    rows = {"north": [0, 40], "south": [50, 50, 50, 50]}
    ((is_refused, message),) = judge(rows, {"pearson": 0.7}, SCORES)
    assert not is_refused
    assert "fewer than 30 rows with different labels" in message
    assert judge({"south": rows["south"]}, {"pearson": 0.7}, SCORES) == []
    (finding,) = judge({"south": [9, 9, 9]}, {"pearson": 0.7}, SCORES)
    assert "south (27)" in finding[1]
