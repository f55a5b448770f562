"""The part of a report about predictions."""

import math

import numpy as np
import pytest

from contracts.packing import Packing
from contracts.task.definition import TaskConfig
from modules.evaluation.prediction_files import RecordedPredictions
from report import page, predictions_part
from tests import records, tiny
from tests.nightly import nightly
from tests.report import samples

PAIRS = TaskConfig()
SINGLE = TaskConfig(text_columns=["sentence1"], classes=["a", "b", "c"])
LABELS = TaskConfig(
    kind="multilabel", text_columns=["sentence"], classes=["a", "b", "c"]
)
SCORES = TaskConfig(label_range=[0, 5])
TOKENS = TaskConfig(input="tokenized")


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    """Shared, as its tokenizer is traced once."""
    directory = tmp_path_factory.mktemp("vocabulary") / "encoder"
    return str(tiny.write_encoder(directory) / "vocab.txt")


@pytest.fixture
def find_worst(tmp_path, vocab_file):
    """Returns the worst rows of Examples, whose ids are 0, 1, ... by default."""

    def find_worst(task, examples, labels, outputs, ids=None):
        return predictions_part.worst_rows(
            task,
            np.array(range(len(examples)) if ids is None else ids),
            np.array(labels),
            np.array(outputs),
            records.write(tmp_path / "data.gz", examples),
            vocab_file,
            Packing(max_seq_length=8),
        )

    return find_worst


def pair(row_id, first="a", second="b"):
    return records.example(
        idx=[row_id], label=[0], sentence1=[first.encode()], sentence2=[second.encode()]
    )


def test_worst_rows_have_their_texts_tokens_and_probabilities(find_worst):
    rows = [pair(index, f"the cat {index}", "a dog") for index in range(5)]
    outputs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.01, 0.99], [0.7, 0.3]]
    worst = find_worst(PAIRS, rows, [0] * 5, outputs)
    assert [row.id for row in worst] == [3, 1, 2, 4, 0]
    first = worst[0]
    assert first.texts == ["the cat 3", "a dog"]
    assert (first.label, first.prediction) == ("not_equivalent", "equivalent")
    assert first.probabilities == {"not_equivalent": 0.01, "equivalent": 0.99}
    assert first.loss == pytest.approx(-math.log(0.01))
    tokens = ["the", "cat", "[UNK]", "[SEP]", "a", "dog"]
    assert first.tokens == ["[CLS]", *tokens, "[SEP]"]
    assert first.cut == 0


def test_rows_without_a_class_are_those_of_improbable_classes():
    labels = np.array([0, 0, 1, 1])
    outputs = np.array([[0.95, 0.05], [0.35, 0.65], [0.3, 0.7], [0.2, 0.8]])
    rows = RecordedPredictions(np.arange(4), labels, outputs, outputs.argmax(axis=1))
    part = predictions_part.describe_abstention("test", rows)
    assert (part.split, part.rows) == ("test", 4)
    assert part.curve.x == [0, 0.25, 0.5, 0.75]
    assert part.curve.y == [0.75, 1, 1, 1]
    points = [(p.min_probability, p.abstained, p.accuracy) for p in part.points]
    assert points == [
        (0.6, 0, 0.75),
        (0.7, 1, 1),
        (0.8, 2, 1),
        (0.9, 3, 1),
        (0.95, 3, 1),
    ]


def test_cut_tokens_are_counted(find_worst):
    rows = [pair(7, "the cat sees the dog a cat", "a")]
    (row,) = find_worst(PAIRS, rows, [0], [[1, 0]], ids=[7])
    tokens = ["the", "cat", "sees", "the", "[SEP]", "a"]
    assert row.tokens == ["[CLS]", *tokens, "[SEP]"]
    assert row.cut == 3


def test_rows_of_tokenized_examples_have_no_texts(find_worst):
    example = records.example(
        example_id=[4],
        label_ids=[1],
        input_ids=[2, 6, 3, 0],
        input_mask=[1, 1, 1, 0],
        segment_ids=[0, 0, 0, 0],
    )
    (row,) = find_worst(TOKENS, [example], [1], [[1, 0]], ids=[4])
    assert row.texts == []
    assert row.tokens == ["[CLS]", "a", "[SEP]"]


def test_rows_that_the_examples_lack_are_listed_without_texts(find_worst):
    (row,) = find_worst(PAIRS, [pair(1)], [0], [[1, 0]], ids=[2])
    assert (row.texts, row.tokens, row.cut) == ([], [], None)


def test_worst_scores_are_those_farthest_from_the_label(find_worst):
    worst = find_worst(SCORES, [*map(pair, range(3))], [1.0, 2, 3], [1.5, 2, 1])
    assert [(row.id, row.loss) for row in worst] == [(2, 4.0), (0, 0.25), (1, 0.0)]
    assert (worst[0].label, worst[0].prediction) == ("3", "1")
    assert worst[0].probabilities == {}


def test_confusion_and_calibration_count_every_row():
    random = np.random.default_rng(0)
    outputs = random.dirichlet([1, 1, 1], 500)
    labels = random.integers(3, size=500)
    shown = predictions_part.classification(SINGLE, labels, outputs)
    assert np.sum(shown.confusion) == 500
    assert np.trace(shown.confusion) == np.sum(outputs.argmax(axis=1) == labels)
    assert sum(row.rows for row in shown.calibration) == 500
    assert [curve.class_name for curve in shown.precision_recall] == ["a", "b", "c"]


def test_calibration_error_of_a_model_that_is_always_sure_is_its_error():
    outputs = np.array([[0.0, 1.0]] * 4)
    shown = predictions_part.classification(PAIRS, np.array([1, 1, 1, 0]), outputs)
    assert shown.expected_calibration_error == pytest.approx(0.25)
    (curve,) = shown.precision_recall
    assert curve.class_name == "equivalent"
    assert curve.positives == 0.75


def test_class_without_a_row_has_no_precision_recall_curve():
    shown = predictions_part.classification(SINGLE, np.array([0, 1]), np.eye(3)[:2])
    assert shown.precision_recall[2].curve.x == []
    assert math.isnan(shown.precision_recall[2].average_precision)


def test_majority_predicts_the_most_frequent_class_of_training():
    counts = {"not_equivalent": 30, "equivalent": 70}
    values = PAIRS.label_kind.majority_metrics(
        np.array([1, 1, 1, 0]), counts, PAIRS.metric
    )
    assert values["accuracy"] == 0.75
    assert values["recall"] == 1.0
    assert values["matthews"] == 0.0
    assert "auc" not in values
    assert SCORES.label_kind.majority_metrics(np.array([1.0]), {}, SCORES.metric) == {}


def test_majority_of_labels_is_the_best_constant_prediction():
    labels = np.array([[1, 1, 0], [1, 0, 0]])
    values = LABELS.label_kind.majority_metrics(
        labels, {"a": 2.0, "b": 1.0}, LABELS.metric
    )
    assert values["recall/a"] == values["recall/b"] == 1.0
    assert values["micro_f1"] == pytest.approx(6 / 7)
    assert values["hamming_loss"] == pytest.approx(1 / 6)
    assert "auc/a" not in values
    assert "loss" not in values


def test_each_label_has_its_rows_and_its_curve():
    labels = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]])
    outputs = np.array(
        [[0.9, 0.2, 0.1], [0.8, 0.6, 0.1], [0.3, 0.1, 0.1], [math.nan] * 3]
    )
    shown = predictions_part.classification(LABELS, labels, outputs, temperature=2.0)
    assert shown.confusion == []
    assert shown.label_rows == [2, 2, 0]
    outputs[3] = [0.1, 0.4, 0.9]
    shown = predictions_part.classification(LABELS, labels, outputs, temperature=2.0)
    first, second, third = shown.precision_recall
    assert first.average_precision == 1.0
    assert second.average_precision == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert math.isnan(third.average_precision)
    assert sum(row.rows for row in shown.calibration) == labels.size
    assert sum(row.rows for row in shown.unscaled) == labels.size


def test_curves_of_many_labels_have_the_points_that_one_picture_shows():
    random = np.random.default_rng(0)
    many = TaskConfig(kind="multilabel", classes=[f"label{i}" for i in range(28)])
    outputs = random.random((1000, 28))
    labels = (random.random((1000, 28)) < outputs / 4).astype(int)
    curves = predictions_part.classification(many, labels, outputs).precision_recall
    points = [list(zip(c.curve.x, c.curve.y, strict=True)) for c in curves]
    assert sum(map(len, points)) <= 1500
    for ends in points:  # all rows are found, and then none
        assert (ends[0][0], ends[-1]) == (1.0, (0.0, 1.0))
    assert len("".join(curve.model_dump_json() for curve in curves)) < 30_000


def test_worst_rows_have_the_names_of_their_labels(find_worst):
    task = LABELS.model_copy(update={"text_columns": ["sentence1"]})
    labels, outputs = [[0, 1, 0], [0, 0, 0]], [[0.9, 0.8, 0.1], [0.4, 0.1, 0.2]]
    worst = find_worst(task, [pair(0), pair(1)], labels, outputs)
    assert [(row.label, row.prediction) for row in worst] == [
        ("b", "a|b"),
        ("(no label)", "(no label)"),
    ]
    assert worst[0].probabilities == {"a": 0.9, "b": 0.8, "c": 0.1}


def test_large_regression_shows_a_part_of_its_rows():
    shown = predictions_part.regression(np.arange(10_000.0), np.arange(10_000.0))
    assert len(shown.labels) == 2_000
    assert shown.labels == shown.scores


def test_rows_that_share_an_id_have_no_texts(find_worst):
    rows = [pair(1, "a cat"), pair(1, "a dog"), pair(2)]
    outputs = [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]
    worst = find_worst(PAIRS, rows, [0] * 3, outputs, ids=[1, 1, 2])
    assert [row.texts for row in worst] == [[], [], ["a", "b"]]


@pytest.mark.parametrize(
    ("task", "broken", "bad"),
    [
        (PAIRS, 1, math.inf),
        (SINGLE, 2, math.nan),
        (SINGLE, 4, math.inf),
        nightly(PAIRS, 1, math.nan),
        nightly(SINGLE, 2, math.inf),
        nightly(SINGLE, 4, math.nan),
    ],
)
def test_rows_whose_prediction_is_not_finite_are_no_class(task, broken, bad):
    labels = np.array([0, 0, 1, 1])
    outputs = np.eye(task.outputs)[labels]
    outputs[:broken, 0] = bad
    shown = predictions_part.classification(task, labels, outputs)
    assert np.sum(shown.confusion) == sum(row.rows for row in shown.calibration)
    assert np.sum(shown.confusion) == len(labels) - broken
    assert math.isnan(shown.expected_calibration_error)
    assert all(math.isnan(c.average_precision) for c in shown.precision_recall)
    changes = {"task": task, "classification": shown}
    report = samples.empty().model_copy(update=changes)
    assert "calibration error NaN" in page.render(report)


@pytest.mark.parametrize("bad", [nightly(math.nan), math.inf])
def test_scores_that_are_not_finite_are_not_drawn(bad):
    labels, scores = np.arange(4.0), np.array([0.0, bad, 2.0, -bad])
    shown = predictions_part.regression(labels, scores)
    assert (shown.labels, shown.scores) == ([0.0, 2.0], [0.0, 2.0])
    none = predictions_part.regression(labels, np.full(4, bad))
    report = samples.regression()
    for report.regression, is_drawn in ((shown, True), (none, False)):
        with samples.without_figures():
            assert ("figure-scores" in page.render(report)) == is_drawn


@pytest.mark.parametrize(
    ("task", "outputs"),
    [
        (PAIRS, [[0.9, 0.1], [math.nan, 0.3], [0.2, 0.8], [math.inf, 0.0]]),
        (SCORES, [0.0, math.nan, 3.0, -math.inf]),
    ],
)
def test_rows_whose_prediction_is_not_finite_are_the_worst(find_worst, task, outputs):
    worst = find_worst(task, [*map(pair, range(4))], [0] * 4, outputs)
    assert [row.id for row in worst] == [1, 3, 2, 0]
    expected = ["nan", "nan" if task is PAIRS else "-inf"]
    assert [row.prediction for row in worst[:2]] == expected
    report = samples.empty().model_copy(update={"task": task, "worst_rows": worst})
    assert '"prediction": "nan"' in page.render(report)
