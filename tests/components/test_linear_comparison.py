"""The comparison of a model with a linear one, from the files of a run."""

import json
import re

import numpy as np
import pytest
from tfx.types import standard_artifacts

from components.evaluator import linear_comparison
from contracts import metrics
from contracts.records.evaluation import MetricVerdict
from contracts.settings.data import DataConfig
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from modules.evaluation import linear_model
from modules.evaluation.prediction_files import Predictions
from modules.training import model_run
from tests import records, tiny
from tests.components.data_gate_runs import TOKENS_TASK

pytestmark = pytest.mark.slow

PAIRS = TaskConfig()
SCORES = TaskConfig(label_range=[0.0, 5.0])
SENTENCES = TaskConfig(text_columns=["sentence1"])
COLORS = ["red", "green", "blue"]
TOPICS = TaskConfig(classes=COLORS, metric="f1")
WEIGHTED = TaskConfig(weight_column="weight")
RIGHT = range(0)  # no row is wrong
ROWS = 200


def row(task, index, label, texts):
    """Returns the Example of some texts."""
    if task.is_tokenized:
        ids = [[tiny.VOCAB.index(w) for w in text.split()] for text in texts]
        columns = {
            "input_ids": [*ids[0], *ids[1], 0],
            "input_mask": [*[1] * len(ids[0]), *[1] * len(ids[1]), 0],
            "segment_ids": [*[0] * len(ids[0]), *[1] * len(ids[1]), 0],
            "label_ids": [label],
            "example_id": [index],
        }
    else:
        columns = {
            **{f"sentence{n + 1}": [t.encode()] for n, t in enumerate(texts)},
            "label": [5.0 * label] if task.classes is None else [label],
            "idx": [index],
        }
        if task.weight_column:
            columns["weight"] = [[0.001, 1.0][label]]
    return records.example(**columns)


def texts_of(task, seed):
    """Returns label and texts of each row; the texts decide the label."""
    pairs = tiny.pairs(ROWS, seed)
    if task.is_tokenized:
        return [(n, *(t.lower().strip(".!") for t in ts)) for n, *ts in pairs]
    if len(task.text_columns) == 1:
        return [(n, f"{['bad', 'good'][n]} {first}") for n, first, _ in pairs]
    if task.outputs == len(COLORS):
        return [(i % 3, f"a {COLORS[i % 3]} tree", "a tree") for i in range(ROWS)]
    return pairs


def write_run(
    root,
    task,
    ids=range(ROWS),
    wrong=range(ROWS),
    train=None,
    noise=(),
    regions=None,
    outputs=None,
    threshold=None,
    chosen_on=None,
):
    """Writes the Examples and the predictions of a model.

    Args:
      root: A new directory.
      task: The task.
      ids: The ids of the rows.
      wrong: The rows in which the model is wrong.
      train: Label and texts of the rows of `train`; None makes some.
      noise: Evaluated rows whose label is not that of their texts.
      regions: The column `region` of the evaluated rows.
      outputs: The probabilities of the model; None is certain.
      threshold: Of the model.
      chosen_on: The rows of `eval`, if the model is evaluated on `test`.
    """
    examples = standard_artifacts.Examples()
    examples.uri = str(root)
    split = "test" if chosen_on else "eval"
    examples.split_names = json.dumps(["train", "eval", "test"])
    evaluated = [
        (1 - label if i in noise else label, *texts)
        for i, (label, *texts) in enumerate(texts_of(task, 1))
    ]
    for name, labelled in {
        "train": train or texts_of(task, 0),
        "eval": chosen_on or [],
        split: evaluated,
    }.items():
        rows = [row(task, i, n, ts) for i, (n, *ts) in zip(ids, labelled, strict=True)]
        if name == split and regions is not None:
            for example, region in zip(rows, regions, strict=True):
                example.features.feature["region"].bytes_list.value.append(region)
        records.write(root / f"Split-{name}" / "data.gz", rows)
    labels = np.array([label for label, *_ in labelled])
    predicted = np.where(np.isin(np.arange(ROWS), wrong), (labels + 1) % 2, labels)
    if task.classes is None:
        labels, outputs = 5.0 * labels, 5.0 * predicted
    elif outputs is None:
        outputs = np.eye(task.outputs)[predicted]
    # The Trainer has the rows in another order.
    order = np.random.default_rng(0).permutation(ROWS)
    columns = (np.array(ids), labels, outputs, np.zeros(ROWS))
    predictions = Predictions(*(values[order] for values in columns), threshold)
    path = str(root / "record" / "predictions" / f"{split}.tsv")
    model_run.write_predictions(path, task, predictions)
    return examples, str(root / "record")


def compare(*args, **options):
    """Returns the comparison, and why the model is worse."""
    result, _, reasons = compare_with_slices(*args, **options)
    return result, reasons


def compare_with_slices(
    task, artifacts, significance=0.05, columns=(), min_rows=30, gate_split="eval"
):
    settings = Sections(
        task=task,
        data=DataConfig(slice_columns=[*columns]),
        evaluator=EvaluatorConfig(split=gate_split, min_slice_rows=min_rows),
    )
    metric = MetricVerdict(metric=task.metric, value=0.5)
    return linear_comparison.compare(settings, *artifacts, [metric], significance)


@pytest.mark.parametrize("task", [PAIRS, SENTENCES, SCORES, TOKENS_TASK, TOPICS])
def test_model_that_is_worse_than_a_linear_one_is_refused(tmp_path, task):
    result, reasons = compare(task, write_run(tmp_path, task))
    assert result.rows == ROWS
    assert result.metric == task.metric
    value = result.metrics[task.metric]
    assert value > 0.9
    test = result.paired
    assert (test.rows, test.a) == (ROWS, pytest.approx(value))
    assert test.b < 0.3
    assert result.sentence.startswith(
        f"compared with a linear model on words (200 rows of train), {task.metric} is "
    )
    (reason,) = reasons
    assert re.fullmatch(
        rf"{task.metric} is [\d.]+ below that of a linear model on words, trained on "
        r"200 rows: p = [\de.-]+ is below evaluator\.significance \(0\.05\), on 200 "
        r"rows; check the labels and the settings of the trainer, or set "
        r"evaluator\.linear_model to report \[E-worse-than-linear-model\]",
        reason,
    )


@pytest.mark.parametrize("metric", ["accuracy", "f1", "precision/not_equivalent"])
def test_difference_that_may_be_noise_refuses_no_model(tmp_path, metric):
    """The linear model is right in all rows, the model in all but three."""
    task = TaskConfig(metric=metric)
    result, reasons = compare(task, write_run(tmp_path, task, wrong=range(3)))
    assert result.metrics[metric] == 1
    assert result.paired.difference < 0
    assert reasons == []


def test_precision_of_a_class_that_is_predicted_in_few_rows_may_be_noise(tmp_path):
    """One of two such predictions is wrong, so the precision is half of the other."""
    task = TaskConfig(metric="precision/equivalent")
    labels = np.array([label for label, *_ in texts_of(task, 1)])
    wrong = [*np.flatnonzero(labels == 1)[1:], np.flatnonzero(labels == 0)[0]]
    result, reasons = compare(task, write_run(tmp_path, task, wrong=wrong))
    assert result.paired.difference == -0.5
    assert reasons == []


# The texts do not decide the label in 60 rows of the south.
REGIONS = [*[b"north"] * 40, *[b"south"] * 160]
NOISE = range(100, 160)


def compare_regions(root, task, wrong, **options):
    artifacts = write_run(root, task, wrong=wrong, noise=NOISE, regions=REGIONS)
    return compare_with_slices(task, artifacts, columns=["region"], **options)


@pytest.mark.parametrize("task", [PAIRS, SENTENCES, SCORES, TOKENS_TASK])
def test_model_that_is_worse_than_a_linear_one_in_a_slice_is_refused(tmp_path, task):
    result, linear, reasons = compare_regions(tmp_path, task, range(25))
    assert result.paired.difference > 0
    assert linear[("region", "north"),] > 0.9
    assert linear[("region", "south"),] < 0.7
    assert {feature for ((feature, _),) in linear} == {*task.slice_features, "region"}
    (reason,) = (reason for reason in reasons if "region" in reason)
    assert re.fullmatch(
        rf"in the slice region north \(40 rows\), {task.metric} is -?[\d.]+, [\d.]+ "
        r"below a linear model's [\d.]+: p = [\de.-]+, multiplied by \d slices, is "
        r"below evaluator\.significance \(0\.05\); add such rows to train, check their "
        r"labels, or set evaluator\.linear_model to report "
        r"\[E-worse-than-linear-model\]",
        reason,
    )
    assert compare_regions(tmp_path / "equal", task, range(2))[-1] == []


def test_slice_with_few_rows_that_the_metric_counts_refuses_no_model(tmp_path):
    _, linear, reasons = compare_regions(tmp_path, PAIRS, range(25), min_rows=41)
    assert linear.keys() >= {(("region", "north"),), (("region", "south"),)}
    assert [reason for reason in reasons if "region" in reason] == []
    # Of the 40 rows, about half have the class.
    task = TaskConfig(metric="recall/equivalent")
    *_, reasons = compare_regions(tmp_path / "recall", task, range(25), min_rows=30)
    assert [reason for reason in reasons if "region" in reason] == []


def test_significance_of_0_refuses_no_model(tmp_path):
    result, reasons = compare(PAIRS, write_run(tmp_path, PAIRS), significance=0.0)
    assert result.paired.p_value < 0.001
    assert reasons == []


def test_rows_without_unique_ids_are_compared_by_their_metrics(tmp_path):
    result, reasons = compare(PAIRS, write_run(tmp_path, PAIRS, ids=[0] * ROWS))
    assert result.paired is None
    assert result.sentence.endswith("train), accuracy is 0.5000 instead of 1.0000")
    assert reasons == []


def test_rows_beyond_the_limit_are_a_sample_of_all(tmp_path, monkeypatch):
    """The first 100 rows have one class; any order of the files has the same sample."""
    monkeypatch.setattr(linear_model, "most_rows", lambda task: 60)
    results = []
    for name, is_reversed in (("sorted", False), ("reversed", True)):
        train = sorted(texts_of(PAIRS, 0), reverse=is_reversed)
        ids = range(ROWS)[:: -1 if is_reversed else 1]
        artifacts = write_run(tmp_path / name, PAIRS, ids, RIGHT, train)
        results.append(compare(PAIRS, artifacts)[0])
    first, second = results
    assert first.rows == 60
    assert first.metrics["accuracy"] > 0.9
    assert first.metrics["loss"] == pytest.approx(second.metrics["loss"])


F1 = {"maximize": "f1"}


def labels_of(task, seed=1):
    return np.array([label for label, *_ in texts_of(task, seed)])


def test_model_that_is_right_by_its_threshold_is_not_refused(tmp_path):
    """Its most probable class is always the first one."""
    task = TaskConfig(text_columns=["sentence1"], metric="f1", decision=F1)
    outputs = metrics.of_two_classes(np.where(labels_of(task) == 1, 0.45, 0.05))
    artifacts = write_run(
        tmp_path, task, outputs=outputs, threshold=0.3, regions=REGIONS
    )
    result, reasons = compare(task, artifacts, columns=["region"])
    assert result.paired.b == 1
    assert reasons == []


def test_linear_model_has_the_threshold_of_the_same_rule(tmp_path):
    """Without one, it misses the class whose rows weigh a thousandth."""
    plain, _ = compare(
        WEIGHTED, write_run(tmp_path / "plain", WEIGHTED, wrong=range(30))
    )
    assert plain.metrics["accuracy"] < 0.85
    task = TaskConfig(weight_column="weight", decision={"maximize": "accuracy"})
    artifacts = write_run(
        tmp_path / "decided", task, wrong=range(30), threshold=0.5, regions=REGIONS
    )
    decided, linear, reasons = compare_with_slices(task, artifacts, columns=["region"])
    assert decided.metrics["accuracy"] > 0.95
    assert decided.paired.a == decided.metrics["accuracy"]
    assert min(linear.values()) > 0.8
    assert " below that of a linear model on words" in reasons[0]


def test_threshold_of_the_linear_model_is_chosen_on_eval(tmp_path):
    """All rows of `eval` are positive, so always predicting that has the highest F1."""
    task = TaskConfig(text_columns=["sentence1"], metric="f1", decision=F1)
    positive = [(1, text) for _, text in texts_of(task, 2)]
    artifacts = write_run(tmp_path, task, chosen_on=positive, threshold=0.5)
    result, _ = compare(task, artifacts, gate_split="test")
    assert result.metrics["recall"] == 1
    share = labels_of(task).mean()
    assert result.metrics["precision"] == pytest.approx(share)
    # Without a decision, `eval` has no influence.
    task = TaskConfig(text_columns=["sentence1"], metric="f1")
    artifacts = write_run(tmp_path / "undecided", task, chosen_on=positive)
    result, _ = compare(task, artifacts, gate_split="test")
    assert result.metrics["precision"] > 0.9


def test_each_label_has_a_threshold_and_rare_ones_share_one(tmp_path):
    """A word has a rare label in a third of its rows, so 0.5 would miss it."""
    names = ["good", "rare", "rarer"]
    results = []
    for decision in (None, F1):
        task = TaskConfig(
            text_columns=["sentence1"],
            kind="multilabel",
            classes=names,
            metric="macro_f1",
            decision=decision,
        )
        rows = [
            ([label, int(i % 18 == 0), int(i % 18 == 1)], f"{text} number{i % 6}")
            for i, (label, text) in enumerate(texts_of(SENTENCES, 1))
        ]
        examples = standard_artifacts.Examples()
        root = tmp_path / str(decision is None)
        examples.uri = str(root)
        examples.split_names = json.dumps(["train", "eval"])
        for split in ("train", "eval"):
            serialized = [
                records.example(sentence1=[text.encode()], label=label, idx=[index])
                for index, (label, text) in enumerate(rows)
            ]
            records.write(root / f"Split-{split}" / "data.gz", serialized)
        labels = np.array([label for label, _ in rows])
        predictions = Predictions(
            np.arange(ROWS),
            labels,
            np.where(labels == 1, 0.45, 0.05),
            np.zeros(ROWS),
            [0.3] * 3 if decision else None,
        )
        path = str(root / "record" / "predictions" / "eval.tsv")
        model_run.write_predictions(path, task, predictions)
        results.append(compare(task, (examples, str(root / "record"))))
    (undecided, refused), (decided, reasons) = results
    assert undecided.paired.b == 0
    assert refused
    assert decided.paired.b == 1
    assert reasons == []
    for name in ("recall/rare", "recall/rarer"):
        assert decided.metrics[name] > undecided.metrics[name] + 0.3
