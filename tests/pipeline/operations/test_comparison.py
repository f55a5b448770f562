"""Runs are compared on the rows that all of them predicted."""

import math
import re
import shutil

import numpy as np
import pytest

from contracts.task.definition import TaskConfig
from ingest.examples import tf_examples
from pipeline.operations.comparison import Comparison, compare, differing_settings
from tests.pipeline.operations.finished import (
    LABELS,
    SCORES,
    TASK,
    Output,
    simulate,
    write_examples,
)
from tests.refusals import refused

pytestmark = pytest.mark.slow


@pytest.fixture
def output(tmp_path):
    return Output(tmp_path)


@pytest.fixture
def two(output):
    return [output.add(name, seed=seed) for seed, name in enumerate("ab")]


def test_metrics_and_changed_rows_of_two_runs(two):
    comparison = compare(two)
    first, second = comparison.runs
    assert comparison.rows == first.rows == second.rows == 200
    assert [(s.key, s.values) for s in comparison.settings] == [
        ("trainer.seed", [0, 1])
    ]
    test = second.tests["accuracy"]
    assert test.a == first.metrics["accuracy"].value
    assert test.b == second.metrics["accuracy"].value
    assert first.tests == {}
    assert "recall/equivalent" in second.metrics
    assert len(comparison.changed) == test.only_a_right + test.only_b_right > 0
    changes = [row.change for row in comparison.changed]
    assert changes == sorted(changes, reverse=True)
    row = comparison.changed[0]
    assert row.texts == [f"text {row.id}", "other"]
    assert set(row.predictions) == set(TASK.classes)
    assert row.change == pytest.approx(abs(np.diff(row.probabilities))[0])


def test_comparison_is_data(two):
    comparison = compare(two)
    text = comparison.model_dump_json()
    assert Comparison.model_validate_json(text).changed == comparison.changed


def test_same_run_has_no_changed_row(two):
    comparison = compare([two[0], two[0]])
    assert comparison.changed == []
    assert comparison.settings == []
    assert comparison.runs[1].tests["f1"].p_value == 1


def test_three_runs_are_compared_with_the_first(output, two):
    third = output.add("c", rows=150, seed=2)
    comparison = compare([*two, third])
    assert comparison.rows == 150
    assert [run.rows for run in comparison.runs] == [200, 200, 150]
    assert [bool(run.tests) for run in comparison.runs] == [False, True, True]
    assert all(len(row.predictions) == 3 for row in comparison.changed)


def test_rows_with_other_texts_are_not_the_same(output, two):
    other = output.add("c", seed=2, texts="new {}")
    got = re.compile("^a and c have no row of eval in common")
    with refused("E-runs-not-comparable", setting="split", got=got):
        compare([two[0], other])
    comparison = compare([two[0], other], with_texts=False)
    assert comparison.rows == 200
    assert not comparison.texts_match


def test_rows_of_the_same_examples_match_without_their_texts(output, two):
    second = output.add("c", seed=1, examples="a")
    assert compare([two[0], second], with_texts=False).texts_match
    assert compare([two[0], second]).texts_match
    assert compare(two).texts_match


def test_rows_whose_id_is_not_unique_do_not_match_other_examples(output, two):
    third = output.add("c", seed=2)
    path = output.directory("c") / "examples"
    texts = [(f"text {row_id}", "other") for row_id in range(200)]
    shutil.rmtree(path)
    twice = [("old text 7", "other"), *texts]
    write_examples(path, TASK, [7, *range(200)], twice)
    comparison = compare([two[0], third])
    assert comparison.rows == 199
    assert 7 not in {row.id for row in comparison.changed}
    second = output.add("d", seed=1, examples="c")
    assert compare([third, second]).rows == 200


def test_texts_of_examples_without_ids_do_not_match(output, two):
    third = output.add("c", rows=3)
    path = output.directory("c") / "examples"
    shutil.rmtree(path)
    task = TASK.model_copy(update={"id_column": "number"})
    write_examples(path, task, range(3), [("a", "b"), ("c", "d"), ("e", "f")])
    assert not compare([two[0], third]).texts_match


@pytest.mark.parametrize("task", [TASK, SCORES])
def test_rows_whose_prediction_is_not_finite_in_one_run_change_most(output, task):
    runs = [output.add(name, task) for name in "ab"]
    assert compare(runs).changed == []
    for run, changes in zip(runs, [{5: "nan"}, {5: "inf", 8: "nan"}], strict=True):
        path = output.directory(run.id) / "run" / "predictions" / "eval.tsv"
        lines = path.read_text().splitlines()
        for row_id, value in changes.items():
            cells = lines[1 + row_id].split("\t")
            lines[1 + row_id] = "\t".join([*cells[:-1], value])
        path.write_text("\n".join(lines))
    comparison = compare(runs)
    (row,) = comparison.changed
    assert row.id == 8
    assert row.predictions[1] == "nan"
    assert row.change == math.inf
    first, second = comparison.runs
    assert all(math.isnan(metric.value) for metric in first.metrics.values())
    assert "it is NaN" in second.tests[task.metric].sentence
    text = comparison.model_dump_json()
    assert Comparison.model_validate_json(text).changed[0].change == math.inf


def test_equal_rows_are_paired_in_their_order(output):
    """Of two rows with the same id, label and texts, each is compared once."""
    run = output.add("a", rows=4)
    path = output.directory("a") / "run" / "predictions" / "eval.tsv"
    header, *rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *rows, rows[0]]))
    assert compare([run, run]).rows == 5


def test_deleted_examples_leave_rows_without_texts(output, two):
    shutil.rmtree(output.directory("b") / "examples" / "Split-eval")
    comparison = compare(two)
    assert comparison.rows == 200
    assert comparison.changed[0].texts == []
    assert not comparison.texts_match


def test_scores_change_by_a_tenth_of_their_range(output):
    runs = [output.add(n, SCORES, seed=s) for s, n in enumerate("ab")]
    comparison = compare(runs)
    assert 0 < len(comparison.changed) < 200
    assert min(row.change for row in comparison.changed) > 0.5
    row = comparison.changed[0]
    first, second = map(float, row.predictions)
    assert abs(first - second) == pytest.approx(row.change, abs=1e-6)
    assert comparison.runs[1].tests["pearson_spearman"].only_a_right is None


def test_metric_of_a_class_that_decides_is_tested(output):
    task = TaskConfig(metric="recall/equivalent")
    runs = [output.add(n, task, seed=s) for s, n in enumerate("ab")]
    tests = compare(runs).runs[1].tests
    assert "recall/equivalent" in tests
    assert "precision/equivalent" not in tests


@pytest.mark.parametrize(
    ("classes", "other", "got"),
    [
        (
            TASK.classes,
            TaskConfig(classes=["no", "maybe", "yes"]),
            "^a predicts the classes not_equivalent, .* b the classes no, maybe, yes",
        ),
        # One label of a row, and several of the same names.
        (LABELS.classes, LABELS, "^a predicts the classes joy, .* b any of"),
    ],
)
def test_other_classes_are_refused(output, classes, other, got):
    task = TASK.model_copy(update={"classes": classes})
    runs = [output.add("a", task), output.add("b", other)]
    with refused("E-runs-not-comparable", setting="task", got=re.compile(got)):
        compare(runs)


def test_split_without_predictions_is_refused(output, two):
    predictions = str(output.directory("a") / "run")
    got = re.compile("^run a, split test: the predictions are missing")
    with refused("E-record-damaged", setting=predictions, got=got):
        compare(two, split="test")


def test_texts_of_the_same_examples_are_read_once(output, two, monkeypatch):
    second = output.add("c", seed=1, examples="a")
    read, calls = tf_examples.to_row, []
    monkeypatch.setattr(tf_examples, "to_row", lambda row: calls.append(1) or read(row))
    assert compare([two[0], second]).rows == len(calls) == 200


def test_nested_settings_differ_by_dotted_key():
    first = {"a": {"b": 1, "c": {}}, "d": [1]}
    second = {"a": {"b": 2, "c": {"e": 3}}, "d": [1]}
    differing = differing_settings([first, second])
    assert [(setting.key, setting.values) for setting in differing] == [
        ("a.b", [1, 2]),
        ("a.c", [{}, None]),
        ("a.c.e", [None, 3]),
    ]


def test_several_labels_of_a_row_change_together(output):
    first, second = (
        output.add(name, LABELS, seed=seed) for seed, name in enumerate("ab")
    )
    comparison = compare([first, second])
    test = comparison.runs[1].tests["micro_f1"]
    assert test.a == comparison.runs[0].metrics["micro_f1"].value
    assert 0 < len(comparison.changed) < comparison.rows == 200
    labels, outputs = simulate(LABELS, 200, seed=1)
    for row in comparison.changed:
        assert row.predictions[0] != row.predictions[1]
        assert row.label == LABELS.describe_label(labels[row.id])
        likelihoods = np.where(labels[row.id], outputs[row.id], 1 - outputs[row.id])
        assert row.probabilities[1] == pytest.approx(likelihoods.prod())
    assert "" in {row.label for row in comparison.changed}  # a row without a label
