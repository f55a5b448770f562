"""Runs are compared on the rows that all of them predicted."""

import math
import re
import shutil

import numpy as np
import pytest

from contracts.redaction import REDACTED
from contracts.task.definition import TaskConfig
from ingest.examples import tf_examples
from pipeline.config import tfx_names
from pipeline.operations.comparison import Comparison, compare, differing_settings
from pipeline.operations.record import SETTINGS_FILE
from tests.pipeline.operations.finished import (
    LABELS,
    SCORES,
    TASK,
    add_trained,
    find,
    simulate,
    write_examples,
)
from tests.refusals import refused

pytestmark = pytest.mark.slow


@pytest.fixture
def two(past):
    return [add_trained(past, seed=seed) for seed in range(2)]


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


def test_changed_rows_are_redacted_as_in_the_reports(two, tmp_path, monkeypatch):
    """Without the module, no text is shown."""
    path = two[1].directory / SETTINGS_FILE
    path.write_text(f"{path.read_text()}redact: hide_of_a_comparison:hide\n")
    assert {tuple(row.texts) for row in compare(two).changed} == {(REDACTED,) * 2}
    (tmp_path / "hide_of_a_comparison.py").write_text(
        "def hide(row):\n    return {**row, 'sentence1': 'text #'}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert {tuple(row.texts) for row in compare(two).changed} == {("text #", "other")}


def test_same_run_has_no_changed_row(two):
    comparison = compare([two[0], two[0]])
    assert comparison.changed == []
    assert comparison.settings == []
    assert comparison.runs[1].tests["f1"].p_value == 1


def test_three_runs_are_compared_with_the_first(past, two):
    third = add_trained(past, rows=150, seed=2)
    comparison = compare([*two, third])
    assert comparison.rows == 150
    assert [run.rows for run in comparison.runs] == [200, 200, 150]
    assert [bool(run.tests) for run in comparison.runs] == [False, True, True]
    assert all(len(row.predictions) == 3 for row in comparison.changed)


def test_rows_with_other_texts_are_not_the_same(past, two):
    other = add_trained(past, seed=2, texts="new {}")
    got = re.compile(f"^{two[0].id} and {other.id} have no row of eval in common")
    with refused("E-runs-not-comparable", setting="split", got=got):
        compare([two[0], other])
    comparison = compare([two[0], other], with_texts=False)
    assert comparison.rows == 200
    assert not comparison.texts_match


def test_rows_of_the_same_examples_match_without_their_texts(past, two):
    second = add_trained(past, seed=1, examples=two[0])
    assert compare([two[0], second], with_texts=False).texts_match
    assert compare([two[0], second]).texts_match
    assert compare(two).texts_match


def test_rows_whose_id_is_not_unique_do_not_match_other_examples(past, two):
    third = add_trained(past, seed=2)
    path = find(third, tfx_names.EXAMPLES)
    texts = [(f"text {row_id}", "other") for row_id in range(200)]
    shutil.rmtree(path)
    twice = [("old text 7", "other"), *texts]
    write_examples(path, TASK, [7, *range(200)], twice)
    comparison = compare([two[0], third])
    assert comparison.rows == 199
    assert 7 not in {row.id for row in comparison.changed}
    second = add_trained(past, seed=1, examples=third)
    assert compare([third, second]).rows == 200


def test_texts_of_examples_without_ids_do_not_match(past, two):
    third = add_trained(past, rows=3)
    path = find(third, tfx_names.EXAMPLES)
    shutil.rmtree(path)
    task = TASK.model_copy(update={"id_column": "number"})
    write_examples(path, task, range(3), [("a", "b"), ("c", "d"), ("e", "f")])
    assert not compare([two[0], third]).texts_match


@pytest.mark.parametrize("task", [TASK, SCORES])
def test_rows_whose_prediction_is_not_finite_in_one_run_change_most(past, task):
    runs = [add_trained(past, task) for _ in range(2)]
    assert compare(runs).changed == []
    for run, changes in zip(runs, [{5: "nan"}, {5: "inf", 8: "nan"}], strict=True):
        path = find(run, tfx_names.MODEL_RUN) / "predictions" / "eval.tsv"
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


def test_equal_rows_are_paired_in_their_order(past):
    """Of two rows with the same id, label and texts, each is compared once."""
    run = add_trained(past, rows=4)
    path = find(run, tfx_names.MODEL_RUN) / "predictions" / "eval.tsv"
    header, *rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *rows, rows[0]]))
    assert compare([run, run]).rows == 5


def test_deleted_examples_leave_rows_without_texts(two):
    shutil.rmtree(find(two[1], tfx_names.EXAMPLES) / "Split-eval")
    comparison = compare(two)
    assert comparison.rows == 200
    assert comparison.changed[0].texts == []
    assert not comparison.texts_match


def test_scores_change_by_a_tenth_of_their_range(past):
    runs = [add_trained(past, SCORES, seed=seed) for seed in range(2)]
    comparison = compare(runs)
    assert 0 < len(comparison.changed) < 200
    assert min(row.change for row in comparison.changed) > 0.5
    row = comparison.changed[0]
    first, second = map(float, row.predictions)
    assert abs(first - second) == pytest.approx(row.change, abs=1e-6)
    assert comparison.runs[1].tests["pearson_spearman"].only_a_right is None


def test_metric_of_a_class_that_decides_is_tested(past):
    task = TaskConfig(metric="recall/equivalent")
    runs = [add_trained(past, task, seed=seed) for seed in range(2)]
    tests = compare(runs).runs[1].tests
    assert "recall/equivalent" in tests
    assert "precision/equivalent" not in tests


@pytest.mark.parametrize(
    ("classes", "other", "got"),
    [
        (
            TASK.classes,
            TaskConfig(classes=["no", "maybe", "yes"]),
            r"^\S+ predicts the classes not_equivalent, .* the classes no, maybe, yes",
        ),
        # One label of a row, and several of the same names.
        (LABELS.classes, LABELS, r"^\S+ predicts the classes joy, .* any of"),
    ],
)
def test_other_classes_are_refused(past, classes, other, got):
    task = TASK.model_copy(update={"classes": classes})
    runs = [add_trained(past, task), add_trained(past, other)]
    with refused("E-runs-not-comparable", setting="task", got=re.compile(got)):
        compare(runs)


def test_split_without_predictions_is_refused(two):
    predictions = str(find(two[0], tfx_names.MODEL_RUN))
    got = re.compile(f"^run {two[0].id}, split test: the predictions are missing")
    with refused("E-record-damaged", setting=predictions, got=got):
        compare(two, split="test")


def test_texts_of_the_same_examples_are_read_once(past, two, monkeypatch):
    second = add_trained(past, seed=1, examples=two[0])
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


def test_several_labels_of_a_row_change_together(past):
    comparison = compare([add_trained(past, LABELS, seed=seed) for seed in range(2)])
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
