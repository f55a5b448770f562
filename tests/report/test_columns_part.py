"""The part of a report about the text columns of a pair."""

import numpy as np
import pytest

from contracts.packing import Packing
from contracts.task.definition import TaskConfig
from report.columns_part import describe_columns
from tests import records, tiny


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    directory = tmp_path_factory.mktemp("vocabulary") / "encoder"
    return str(tiny.write_encoder(directory) / "vocab.txt")


def describe(task, labels, outputs, permuted, vocab_file):
    examples = [
        records.example(sentence1=[b"the cat"], sentence2=[b"a dog"], label=[label])
        for label in labels
    ]
    latency = {"all texts": 8.0, "without sentence1": 6.0, "without sentence2": 8.1}
    packing = Packing(max_seq_length=16)
    results = (outputs, permuted)
    return describe_columns(task, examples, *results, vocab_file, packing, latency)


def test_columns_of_a_regression_are_compared_by_their_correlation(vocab_file):
    labels = [float(label) for label in np.random.default_rng(0).uniform(0, 5, 40)]
    scores = np.array(labels)
    permuted = {"sentence1": np.roll(scores, 20), "sentence2": scores}
    task = TaskConfig(label_range=[0, 5])
    first, second = describe(task, labels, scores, permuted, vocab_file)
    assert first.metrics["pearson_spearman"] == pytest.approx(1)
    assert first.test.difference == pytest.approx(
        1 - first.permuted["pearson_spearman"]
    )
    assert (first.time_share, second.time_share) == (0.25, 0)
    assert first.is_beneficial
    assert not second.is_beneficial
    assert (first.tokens, first.token_share, first.cut_rows) == (2, 0.5, 0)


def test_deciding_metric_of_a_class_is_shown_and_other_classes_are_not(vocab_file):
    task = TaskConfig(classes=["a", "b", "c"], metric="recall/c")
    labels = [0, 1, 2] * 20
    outputs = np.eye(3)[labels]
    permuted = {"sentence1": np.eye(3)[[0] * 60], "sentence2": outputs}
    first, second = describe(task, labels, outputs, permuted, vocab_file)
    assert {*first.metrics} == {"accuracy", "f1", "recall/c"}
    assert (first.test.difference, second.test.difference) == (1, 0)
    assert first.is_beneficial


def test_column_that_makes_a_model_worse_is_not_beneficial(vocab_file):
    labels = [0, 1] * 30
    right = np.eye(2)[labels]
    permuted = {"sentence1": right, "sentence2": right}
    first, _ = describe(TaskConfig(), labels, 1 - right, permuted, vocab_file)
    assert first.test.difference == -1
    assert not first.test.may_be_noise
    assert not first.is_beneficial
