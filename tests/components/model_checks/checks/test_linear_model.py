"""The comparison of a model with a linear one."""

import dataclasses
import math
import re

import numpy as np
import pytest

from components.model_checks.checks.linear_model import LinearModelCheck
from contracts import metrics
from contracts.task.definition import TaskConfig
from modules.evaluation import linear_model
from tests import tiny
from tests.components.model_checks import toys

PAIRS = TaskConfig()
SCORES = TaskConfig(label_range=[0.0, 5.0])
SENTENCES = TaskConfig(text_columns=["sentence1"])
TOKENS = TaskConfig(input="tokenized")
COLORS = ["red", "green", "blue"]
TOPICS = TaskConfig(classes=COLORS, metric="f1")
F1 = {"maximize": "f1"}
ROWS = 200


class Run(toys.Toy):
    """Its predictions are recorded in another order than the rows."""

    def _recorded(self, split):
        recorded = super()._recorded(split)
        return type(recorded)(*(values[::-1] for values in recorded))


def texts_of(task, seed):
    """Returns label and texts of each row; the texts decide the label."""
    pairs = tiny.pairs(ROWS, seed)
    if task.is_tokenized:
        words = tiny.VOCAB.index
        return [
            (n, *(" ".join(str(words(w)) for w in t.lower()[:-1].split()) for t in ts))
            for n, *ts in pairs
        ]
    if len(task.text_columns) == 1:
        return [(n, f"{['bad', 'good'][n]} {first}") for n, first, _ in pairs]
    if task.outputs == len(COLORS):
        return [(i % 3, f"a {COLORS[i % 3]} tree", "a tree") for i in range(ROWS)]
    return pairs


def labels_of(task, seed=1):
    return np.array([label for label, *_ in texts_of(task, seed)])


def make_run(task, wrong=range(ROWS), outputs=None, kind=Run, noise=(), regions=None):
    """Returns a run whose model is wrong in some rows.

    Args:
      task: The task.
      wrong: The rows in which the model is wrong.
      outputs: The probabilities of the model; None is certain.
      kind: The class of the run.
      noise: Evaluated rows whose label is not that of their texts.
      regions: The slice `region` of the evaluated rows.
    """
    scale = 5.0 if task.classes is None else 1
    evaluated = [
        (texts, scale * (1 - label if i in noise else label), slices)
        for i, ((label, *texts), slices) in enumerate(
            zip(texts_of(task, 1), regions or [{}] * ROWS, strict=True)
        )
    ]
    labels = np.array([label for _, label, _ in evaluated]) / scale
    classes = np.where(np.isin(np.arange(ROWS), wrong), (labels + 1) % 2, labels)
    if outputs is None:
        is_score = task.classes is None
        outputs = (
            scale * classes if is_score else np.eye(task.outputs)[classes.astype(int)]
        )
    train = [(texts, scale * label) for label, *texts in texts_of(task, 0)]
    return kind(
        task=task,
        rows={"train": train, "eval": evaluated},
        models={"candidate": lambda texts: outputs},
        facts={"metrics": {task.metric: 0.5}},
    )


def cell(result, part, metric):
    """Returns the metric of the model and of the linear model."""
    (cells,) = (row[2:] for row in result.table.rows if row[:2] == [part, metric])
    return cells


@pytest.mark.parametrize("task", [PAIRS, SENTENCES, SCORES, TOKENS, TOPICS])
def test_model_that_is_worse_than_a_linear_one_is_refused(task):
    run = make_run(task)
    result = run.run(LinearModelCheck())
    assert result.status == "refused"
    assert result.figures["rows of train"] == ROWS
    assert ("rows", ("train", linear_model.most_rows(task))) in run.calls
    model, linear = cell(result, "all rows", task.metric)
    assert model == 0.5
    assert linear > 0.9
    difference = result.figures["difference"]
    assert difference.value < -0.5
    low, high = difference.interval
    assert low <= difference.value <= high
    result.name = "linear_model"
    assert re.fullmatch(
        rf"{task.metric} is [\d.]+ below that of a linear model on words, trained on "
        r"200 rows: p = [\de.-]+ is below evaluator\.significance \(0\.05\), on 200 "
        r"rows; check the labels and the settings of the trainer, or set "
        r"checks\.linear_model\.action=warn \(checks\.linear_model\) "
        r"\[E-worse-than-linear-model\]",
        result.message,
    )


def test_worse_model_is_a_warning_without_the_advice_to_make_it_one():
    result = make_run(PAIRS).run(LinearModelCheck(), action="warn")
    assert result.status == "warning"
    assert result.advice == "check the labels and the settings of the trainer"


@pytest.mark.parametrize("metric", ["accuracy", "f1", "precision/not_equivalent"])
def test_difference_that_may_be_noise_refuses_no_model(metric):
    """The linear model is right in all rows, the model in all but three."""
    task = TaskConfig(metric=metric)
    result = make_run(task, wrong=range(3)).run(LinearModelCheck())
    assert cell(result, "all rows", metric)[1] == 1
    assert result.figures["difference"].value < 0
    assert result.status == "passed"
    assert result.sentence.startswith(
        f"compared with a linear model on words (200 rows of train), {metric} is "
    )
    assert result.advice == ""


def test_precision_of_a_class_that_is_predicted_in_few_rows_may_be_noise():
    """One of two such predictions is wrong, so the precision is half of the other."""
    task = TaskConfig(metric="precision/equivalent")
    labels = labels_of(task)
    wrong = [*np.flatnonzero(labels == 1)[1:], np.flatnonzero(labels == 0)[0]]
    result = make_run(task, wrong).run(LinearModelCheck())
    assert result.figures["difference"].value == -0.5
    assert result.status == "passed"


# The texts do not decide the label in 60 rows of the south.
REGIONS = [{"region": name} for name in ["north"] * 40 + ["south"] * 160]
NOISE = range(100, 160)
NORTH, SOUTH = "region north (40 rows)", "region south (160 rows)"


def run_regions(task, wrong, **settings):
    run = make_run(task, wrong, noise=NOISE, regions=REGIONS)
    return run.run(LinearModelCheck(), **settings)


@pytest.mark.parametrize("task", [PAIRS, SENTENCES, SCORES, TOKENS])
def test_model_that_is_worse_than_a_linear_one_in_a_slice_is_refused(task):
    result = run_regions(task, range(25))
    assert result.status == "refused"
    assert result.figures["difference"].value > 0
    assert cell(result, NORTH, task.metric)[1] > 0.9
    assert cell(result, SOUTH, task.metric)[1] < 0.7
    assert re.fullmatch(
        rf"in the slice region north \(40 rows\), {task.metric} is -?[\d.]+, [\d.]+ "
        r"below a linear model's [\d.]+: p = [\de.-]+, multiplied by \d slices, is "
        r"below evaluator\.significance \(0\.05\)",
        result.sentence,
    )
    assert result.advice == (
        "add such rows to train, check their labels, or set "
        "checks.linear_model.action=warn"
    )
    assert run_regions(task, range(2)).status == "passed"


def test_slice_with_few_rows_that_the_metric_counts_refuses_no_model():
    result = run_regions(PAIRS, range(25), min_slice_rows=41)
    assert cell(result, NORTH, "accuracy")[1] > 0.9
    assert result.status == "passed"
    # Of the 40 rows, about half have the class.
    task = TaskConfig(metric="recall/equivalent")
    assert run_regions(task, range(25), min_slice_rows=30).status == "passed"


def test_significance_of_0_refuses_no_model():
    run = make_run(PAIRS)
    run.facts["significance"] = 0.0
    result = run.run(LinearModelCheck())
    assert result.figures["p-value"] < 0.001
    assert result.status == "passed"


def test_rows_without_unique_ids_are_compared_by_their_metrics():
    class WithoutIds(Run):
        def _rows(self, split, most):
            rows = super()._rows(split, most)
            return dataclasses.replace(rows, ids=np.full(len(rows), -1))

    run = make_run(PAIRS, kind=WithoutIds, regions=REGIONS)
    result = run.run(LinearModelCheck())
    assert result.sentence.endswith("train), accuracy is 0.5000 instead of 1.0000")
    assert result.status == "passed"
    assert {row[0] for row in result.table.rows} == {"all rows"}


def test_model_that_is_nan_has_no_test():
    run = make_run(PAIRS, outputs=np.full((ROWS, 2), math.nan), regions=REGIONS)
    result = run.run(LinearModelCheck())
    assert result.status == "passed"  # its threshold refuses it
    assert "it is NaN" in result.sentence
    assert result.figures["p-value"] is None
    assert cell(result, NORTH, "accuracy")[0] is None


def test_model_that_is_right_by_its_threshold_is_not_refused():
    """Its most probable class is always the first one."""
    task = TaskConfig(text_columns=["sentence1"], metric="f1", decision=F1)
    outputs = metrics.of_two_classes(np.where(labels_of(task) == 1, 0.45, 0.05))
    run = make_run(task, outputs=outputs, regions=REGIONS)
    run.thresholds["candidate"] = 0.3
    result = run.run(LinearModelCheck())
    assert cell(result, SOUTH, "f1")[0] == 1
    assert result.status == "passed"


class Weighted(Run):
    """Rows of the second class weigh a thousand times as much in training."""

    def _rows(self, split, most):
        rows = super()._rows(split, most)
        return dataclasses.replace(rows, weights=np.array([0.001, 1.0])[rows.labels])


def test_linear_model_has_the_threshold_of_the_same_rule():
    """Without one, it misses the class whose rows weigh a thousandth."""
    task = TaskConfig(weight_column="weight")
    plain = make_run(task, range(30), kind=Weighted).run(LinearModelCheck())
    assert cell(plain, "all rows", "accuracy")[1] < 0.85
    task = TaskConfig(weight_column="weight", decision={"maximize": "accuracy"})
    run = make_run(task, range(30), kind=Weighted, regions=REGIONS)
    run.thresholds["candidate"] = 0.5
    result = run.run(LinearModelCheck())
    assert cell(result, "all rows", "accuracy")[1] > 0.95
    assert min(cell(result, part, "accuracy")[1] for part in (NORTH, SOUTH)) > 0.8
    assert " below that of a linear model on words" in result.sentence


def test_threshold_of_the_linear_model_is_chosen_on_eval():
    """All rows of `eval` are positive, so always predicting that has the highest F1."""
    results = []
    for decision in (F1, None):
        task = TaskConfig(text_columns=["sentence1"], metric="f1", decision=decision)
        run = make_run(task)
        run.rows["test"] = run.rows["eval"]
        run.rows["eval"] = [(text, 1) for _, text in texts_of(task, 2)]
        run.facts["split"] = "test"
        results.append(run.run(LinearModelCheck()))
    decided, undecided = results
    assert cell(decided, "all rows", "recall")[1] == 1
    share = labels_of(SENTENCES).mean()
    assert cell(decided, "all rows", "precision")[1] == pytest.approx(share)
    assert cell(undecided, "all rows", "precision")[1] > 0.9


def test_each_label_has_a_threshold_and_rare_ones_share_one():
    """A word has a rare label in a third of its rows, so 0.5 would miss it."""
    results = []
    for decision in (None, F1):
        task = TaskConfig(
            text_columns=["sentence1"],
            kind="multilabel",
            classes=["good", "rare", "rarer"],
            metric="macro_f1",
            decision=decision,
        )
        rows = [
            (f"{text} number{i % 6}", [label, int(i % 18 == 0), int(i % 18 == 1)])
            for i, (label, text) in enumerate(texts_of(SENTENCES, 1))
        ]
        outputs = np.where(np.array([label for _, label in rows]) == 1, 0.45, 0.05)
        run = Run(
            task=task,
            rows={"train": rows, "eval": rows},
            models={"candidate": lambda texts, outputs=outputs: outputs},
            thresholds={"candidate": [0.3] * 3 if decision else None},
        )
        results.append(run.run(LinearModelCheck()))
    undecided, decided = results
    assert (undecided.status, decided.status) == ("refused", "passed")
    values = [cell(result, "all rows", "macro_f1")[1] for result in results]
    assert values[1] > values[0] + 0.2
