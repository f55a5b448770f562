"""Rows that perturbations change: which are drawn, predicted and shown."""

import random

import numpy as np
import pytest

from components.model_checks.changes import predict_changes
from components.model_checks.check import Data, Facts, Model
from components.model_checks.perturbations import Perturbation
from contracts.task.definition import TaskConfig
from tests.components.model_checks.toys import TASK, Toy, by_word

TYPO = {"typos": 1}
THANKS = {"append": " Thanks."}


def predict(texts, *perturbations, most=256, task=TASK, model=None, threshold=None):
    """Returns the changed rows of each perturbation, and the toy."""
    toy = Toy(
        task=task,
        rows={"eval": [(row, 0) for row in texts]},
        models={"candidate": model or by_word("good")},
    )
    facts = Facts(task, "eval", 0.05, {}, [], "", {"candidate": threshold}, None)
    named = [(str(part), Perturbation(**part)) for part in perturbations]
    candidate, data = (
        Model("candidate", task, threshold, toy.call),
        Data(facts, toy.call),
    )
    return list(predict_changes(candidate, data, named, most)), toy


def read_texts(changed):
    return [
        (changed.rows.texts[row], version)
        for row, version in zip(changed.indices, changed.versions, strict=True)
    ]


def test_only_rows_that_change_are_predicted():
    texts = ["good cat", "12", "a"]
    (typos,), toy = predict(texts, TYPO)
    assert [row for row, _ in read_texts(typos)] == [("good cat",)]
    assert [method for method, _ in toy.calls] == ["rows", "outputs"]
    (_, (name, sent)) = toy.calls[-1]
    assert name == "candidate"
    assert len(sent) == 2


def test_all_perturbations_are_one_call_with_each_text_once():
    texts = ["good cat", "good cat", "bad dog"]
    (typos, thanks), toy = predict(texts, TYPO, THANKS)
    assert len(typos.versions) == len(thanks.versions) == 3
    (sent,) = (args[1] for method, args in toy.calls if method == "outputs")
    assert len(sent) == len(set(sent)) == 6
    expected = by_word("good")
    for changed in (typos, thanks):
        rows, versions = zip(*read_texts(changed), strict=True)
        np.testing.assert_array_equal(changed.before, expected(rows))
        np.testing.assert_array_equal(changed.after, expected(versions))


def test_perturbation_without_rows_is_left_out():
    changed, _ = predict(["12", "34"], TYPO, THANKS)
    assert [part.name for part in changed] == [str(THANKS)]
    changed, toy = predict(["12"], TYPO)
    assert changed == []
    assert "outputs" not in dict(toy.calls)


@pytest.mark.parametrize("perturbation", [TYPO, {"swap_words": "religion"}])
def test_sample_does_not_depend_on_the_order_of_the_rows(perturbation):
    texts = [f"{number} a Jewish text" for number in range(200)]
    (first,), _ = predict(texts, perturbation, most=21)
    (same,), _ = predict(
        random.Random(0).sample(texts, len(texts)), perturbation, most=21
    )
    assert read_texts(first) == read_texts(same)
    assert len(first.versions) == (21 if perturbation is TYPO else 20)
    # They are not the first ones.
    assert max(first.indices) > 100


def test_a_row_with_more_versions_than_allowed_is_predicted_anyway():
    (religion,), _ = predict(["a Jew", "a Hindu"], {"swap_words": "religion"}, most=2)
    assert len(religion.versions) == 4
    assert len(set(religion.indices)) == 1


def test_rows_with_bytes_that_are_not_utf8_are_left_out():
    texts = [b"caf\xe9 good".decode("utf-8", "surrogateescape"), "café good"]
    (typos,), _ = predict(texts, TYPO)
    assert typos.indices.tolist() == [1]


def test_a_row_counts_once_and_shows_its_worst_version():
    """Only the version with the first other word changes the prediction."""
    words = {"swap_words": [["good", "bad", "fine"]]}
    model = by_word("bad")
    (changed,), _ = predict(["good", "good cat", "a dog"], words, model=model)
    change = changed.compare()
    assert (change.rows, change.versions, change.failed) == (2, 4, 2)
    assert change.mean_change == pytest.approx(0.35)
    assert [row.changed["text"] for row in change.shown] == ["bad", "bad cat"]


def test_rows_that_fail_are_shown_before_those_that_change_more():
    """With a threshold of 0.9, the smaller of two changes is another prediction."""
    probabilities = {"a x": 0.1, "a y": 0.8, "b x": 0.95, "b y": 0.85}

    def model(texts):
        second = np.array([probabilities[text] for (text,) in texts])
        return np.stack([1 - second, second], axis=1)

    words = {"swap_words": [["x", "y"]]}
    (changed,), _ = predict(["a x", "b x"], words, model=model, threshold=0.9)
    first, second = changed.compare().shown
    assert first.texts == {"text": "b x"}
    assert first.shown_facts == {
        "changed text": "b y",
        "change": str(words),
        "id": "1",
        "prediction": "good",
        "prediction with the changed text": "bad",
        "probability of good": 0.95,
        "probability of good with the changed text": 0.85,
    }
    assert second.texts == {"text": "a x"}


def test_unchanged_text_of_a_pair_is_not_repeated():
    task = TaskConfig(text_columns=["a", "b"], classes=["bad", "good"])
    (changed,), _ = predict(
        [("one", "two")],
        {**THANKS, "column": "b"},
        task=task,
        model=by_word("thanks.", column=1),
    )
    (row,) = changed.compare().shown
    assert row.texts == {"a": "one", "b": "two"}
    assert row.changed == {"b": "two Thanks."}
    assert row.shown_facts["changed b"] == "two Thanks."
