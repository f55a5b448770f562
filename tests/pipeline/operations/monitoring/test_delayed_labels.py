"""Metrics of served rows whose labels arrive later."""

import re
from typing import NamedTuple

import pytest

from contracts.task.definition import TaskConfig
from pipeline.operations.monitoring import delayed_labels
from pipeline.operations.monitoring.delayed_labels import PredictedRow
from tests.refusals import refused

TASK = TaskConfig(text_columns=["text"], classes=["no", "yes"], labels="name")


class Served(NamedTuple):
    texts: tuple
    outputs: tuple
    class_name: str = "yes"
    labels: tuple = ()


def values(metrics):
    return {metric.name: metric.value for metric in metrics}


def write(path, *rows):
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return str(path)


def test_metrics_are_those_of_the_labelled_rows(tmp_path):
    path = write(tmp_path / "labels.csv", "a,yes", "b,no", "é,yes", "never served,no")
    labels = delayed_labels.read_labels(path, TASK)
    rows = [
        Served((b"a",), (0.1, 0.9)),
        Served((b"b",), (0.2, 0.8)),
        Served(("é".encode(),), (0.3, 0.7)),
        Served((b"a",), (0.4, 0.6)),
    ]
    metrics = values(delayed_labels.measure(rows, labels, TASK, {}))
    assert metrics["accuracy"] == 0.75
    assert metrics["recall/yes"] == 1.0
    assert delayed_labels.measure([], labels, TASK, {}) == []


def test_scores_are_measured(tmp_path):
    task = TaskConfig(text_columns=["text"], classes=None, label_range=[0, 5])
    labels = delayed_labels.read_labels(write(tmp_path / "l.csv", "a,1", "b,3"), task)
    rows = [Served((b"a",), (2.0,)), Served((b"b",), (3.0,))]
    assert values(delayed_labels.measure(rows, labels, task, {}))["mse"] == 0.5


def test_served_class_counts_although_another_is_more_probable():
    rows = [Served((b"a",), (0.6, 0.4)), Served((b"b",), (0.9, 0.1), "no")]
    labels = {(b"a",): 1.0, (b"b",): 0.0}
    assert values(delayed_labels.measure(rows, labels, TASK, {}))["accuracy"] == 1.0


def test_rows_of_other_classes_do_not_fit():
    assert delayed_labels.fits(Served((b"a",), (0.6, 0.4)), TASK)
    assert not delayed_labels.fits(Served((b"a",), (0.6, 0.4), "positive"), TASK)
    assert not delayed_labels.fits(Served((b"a",), (0.5, 0.3, 0.2)), TASK)
    assert not delayed_labels.fits(Served((b"a",), (0.6,), ""), TASK)
    scores = TaskConfig(text_columns=["text"], label_range=[0.0, 5.0])
    assert delayed_labels.fits(Served((b"a",), (3.0,), ""), scores)


def test_metric_below_its_threshold_is_an_alarm():
    metrics = delayed_labels.measure(
        [Served((b"a",), (0.1, 0.9)), Served((b"b",), (0.2, 0.8))],
        {(b"a",): 1.0, (b"b",): 0.0},
        TASK,
        {"accuracy": 0.51, "f1": 0.5},
    )
    assert {metric.name for metric in metrics if metric.is_alarm} == {"accuracy"}


def test_metric_of_outputs_that_are_not_finite_is_an_alarm():
    rows = [Served((b"a",), (float("nan"), float("nan")))]
    metrics = delayed_labels.measure(rows, {(b"a",): 1.0}, TASK, {"f1": 0.0})
    assert {metric.name for metric in metrics if metric.is_alarm} == {"f1"}


@pytest.mark.parametrize(
    ("name", "rows", "error", "got"),
    [
        ("labels.csv", ["a,maybe"], "E-rows-refused", r"labels\.csv:2: .*maybe"),
        ("labels.csv", ["a,0", "b,yes"], "E-rows-refused", r":2: label is '0'"),
        ("labels.xlsx", ["a,yes"], "E-format-unknown", r"labels\.xlsx$"),
    ],
)
def test_what_is_no_label_is_refused(tmp_path, name, rows, error, got):
    """The second one has an index, which names make a wrong name."""
    with refused(error, setting="labels", got=re.compile(got)):
        delayed_labels.read_labels(write(tmp_path / name, *rows), TASK)


@pytest.mark.parametrize(
    ("separator", "lines"),
    [
        ("|", ["text,label", "a,joy|love", "b,"]),
        (",", ["text,label", "a,\"['joy', 'love', 'joy']\"", "b,[]"]),
        ("#", ["text,label", "a,love # joy #", "b,"]),
        (None, ["text,joy,love", "a,1,1", "b,0,0"]),
    ],
)
def test_several_labels_are_measured(tmp_path, separator, lines):
    task = TaskConfig(
        kind="multilabel",
        text_columns=["text"],
        classes=["joy", "love"],
        label_separator=separator,
    )
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(lines) + "\n")
    labels = delayed_labels.read_labels(str(path), task)
    rows = [
        PredictedRow((b"a",), (0.9, 0.4), labels=(1, 0)),
        PredictedRow((b"b",), (0.2, 0.3), labels=(0, 0)),
    ]
    assert all(delayed_labels.fits(row, task) for row in rows)
    assert not delayed_labels.fits(PredictedRow((b"a",), (0.6, 0.4), "joy"), task)
    metrics = values(delayed_labels.measure(rows, labels, task, {}))
    assert metrics["accuracy"] == 0.5
    assert metrics["micro_f1"] == pytest.approx(2 / 3)
    assert metrics["recall/love"] == 0
