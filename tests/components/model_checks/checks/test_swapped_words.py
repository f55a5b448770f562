"""What swapped words change in the predictions of a model."""

import re

import numpy as np
import pytest

from components.model_checks.check import NotApplicable
from components.model_checks.checks.swapped_words import SwappedWords
from contracts.errors import SettingError
from contracts.task.definition import TaskConfig
from tests.components.model_checks.toys import Toy

CLASSES = TaskConfig(classes=["a", "b"])
LABELS = TaskConfig(kind="multilabel", classes=["a", "b"])
SCORES = TaskConfig(label_range=[0.0, 5.0])
TOKENS = TaskConfig(classes=["a", "b"], input="tokenized")
PEOPLE = ["he", "She", "the Woman", "my father", "a Muslim", "HIS dog", "an Indian man"]
MEN = "he|his|man|father"


def by_words(words):
    """Returns a model whose prediction depends on whether a word is in the texts."""

    def predict(texts):
        pattern = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
        second = np.array(
            [0.9 if pattern.search(" ".join(row)) else 0.2 for row in texts]
        )
        return np.stack([1 - second, second], axis=1)

    return predict


def run(predict, task=CLASSES, count=60, texts=PEOPLE, **settings):
    rows = [
        (
            (f"{n}: {texts[n % len(texts)]} went", f"{texts[n % len(texts)]} left"),
            0,
        )
        for n in range(count)
    ]
    toy = Toy(task=task, rows={"eval": rows}, models={"candidate": predict})
    return toy.run(SwappedWords(), **settings)


def read_table(result):
    """Returns rows, versions, changed rows, share and mean change by list."""
    assert result.table.columns == [
        *("Words", "Rows", "Versions", "Rows changed", "Share", "Mean change")
    ]
    return {name: cells for name, *cells in result.table.rows}


def test_model_that_predicts_by_a_word_for_a_group_is_found():
    result = run(by_words(MEN))
    assert result.status == "warning"
    assert re.fullmatch(
        r"the prediction changes in 52 of 52 rows \(100\.0 %, 95 % interval 93\.2 % to "
        r"100\.0 %\) if words of checks\.swapped_words\.lists\.gender are swapped, but "
        r"checks\.swapped_words\.max_changed allows 5 %",
        result.sentence,
    )
    assert "add rows to train" in result.advice
    table = read_table(result)
    assert [*table] == ["gender", "religion", "nationality"]
    # All but the Muslims have a word for a man or a woman.
    assert table["gender"][:3] == [52, 52, 52]
    assert table["gender"][4] == pytest.approx(0.7)
    assert table["religion"][:3] == [8, 32, 0]
    shown = [row for row in result.rows if row.facts["change"] == "gender"]
    assert len({row.facts["id"] for row in shown}) == len(shown) == 5
    for row in shown:
        facts = row.facts
        assert {facts["prediction"], facts["prediction with the changed text"]} == {
            *"ab"
        }
        name = f"probability of {facts['prediction']}"
        change = facts[f"{name} with the changed text"] - facts[name]
        assert change == pytest.approx(-0.7)
        # Both texts are swapped at once.
        assert row.changed["sentence1"] != row.texts["sentence1"]
        assert row.changed["sentence2"] != row.texts["sentence2"]


def test_model_that_uses_no_word_for_a_group_is_not():
    result = run(by_words("went"))
    assert result.status == "passed"
    assert result.advice == ""
    assert {cells[2] for cells in read_table(result).values()} == {0}
    assert {cells[4] for cells in read_table(result).values()} == {0}
    assert result.sentence.endswith("are swapped, the largest of 3 shares")


def test_few_rows_that_change_may_be_noise():
    """The words of two of 12 rows decide; the interval of the share includes 5 %."""
    result = run(by_words("father"), count=14)
    rows, _, changed, share, _ = read_table(result)["gender"]
    assert (changed, rows) == (2, 12)
    assert share.interval[0] < 0.05 < share.value
    assert result.status == "passed"


def test_model_is_refused_if_the_user_asks_for_it():
    assert run(by_words(MEN), action="refuse").status == "refused"


def test_limit_of_the_recipe_decides():
    assert run(by_words(MEN), max_changed=0.95).status == "passed"


def test_all_lists_beyond_the_limit_are_in_the_sentence():
    result = run(by_words(f"{MEN}|muslim"))
    assert result.sentence.count("if words of checks.swapped_words.lists.") == 2
    assert "lists.religion are swapped, but" in result.sentence


def test_any_label_that_changes_counts():
    def predict(texts):
        share = by_words(MEN)(texts)[:, 1]
        # The label `a`, whose probability is always higher, never changes.
        return np.stack([0.9 + 0.1 * share, share], axis=1)

    result = run(predict, LABELS)
    _, _, changed, _, mean_change = read_table(result)["gender"]
    assert changed == 52
    assert mean_change == pytest.approx(0.7)
    facts = result.rows[0].facts
    predictions = {facts["prediction"], facts["prediction with the changed text"]}
    assert predictions == {"a", "a|b"}
    name = "probability of b"
    assert {facts[name], facts[f"{name} with the changed text"]} == {0.9, 0.2}


@pytest.mark.parametrize(("change", "changed"), [(1.0, 52), (0.4, 0)])
def test_score_changes_by_a_tenth_of_its_range(change, changed):
    def predict(texts):
        return change * (by_words(MEN)(texts)[:, 1] - 0.2) / 0.7

    result = run(predict, SCORES)
    gender = read_table(result)["gender"]
    assert gender[2] == changed
    assert gender[4] == pytest.approx(change)
    facts = result.rows[0].facts
    scores = {float(facts[name]) for name in facts if name.startswith("prediction")}
    assert max(scores) - min(scores) == pytest.approx(change)


@pytest.mark.parametrize(
    ("task", "texts", "settings", "reason"),
    [
        (
            CLASSES,
            ["a dog"],
            {},
            "no row has one of checks.swapped_words.lists (gender,",
        ),
        (CLASSES, PEOPLE, {"lists": {}}, "checks.swapped_words.lists has no list"),
        (TOKENS, PEOPLE, {}, "the rows have token ids and no texts"),
    ],
)
def test_rows_without_words_are_reported(task, texts, settings, reason):
    words = re.escape(f"words are not swapped: {reason}")
    with pytest.raises(NotApplicable, match=words):
        run(by_words("he"), task, texts=texts, **settings)


def test_own_lists_replace_the_shipped_ones():
    result = run(
        by_words("dog"), lists={"animals": [["dog", "cat"]], "age": [["young", "old"]]}
    )
    assert {name: cells[:3] for name, cells in read_table(result).items()} == {
        "animals": [8, 8, 8]
    }


def test_list_that_cannot_be_swapped_is_refused_by_its_name():
    with pytest.raises(ValueError, match=r"age: a list has rows of \[1\] words"):
        SwappedWords.Settings(lists={"age": [["young"]]})


@pytest.mark.parametrize(
    ("task", "lists"), [(TOKENS, None), (CLASSES, {}), (CLASSES, None)]
)
def test_refusal_that_cannot_happen_is_refused(task, lists):
    settings = SwappedWords.Settings(action="refuse", lists=lists)
    if task is CLASSES and lists is None:
        SwappedWords().validate(settings, task, [])
        return
    with pytest.raises(SettingError, match="no words are swapped"):
        SwappedWords().validate(settings, task, [])


def test_versions_are_limited_for_each_list():
    texts = ["he and a Jew"]
    table = read_table(run(by_words("x"), count=400, texts=texts, rows=42))
    assert table["gender"][:2] == [42, 42]
    # A row has four versions, which are not divided.
    assert table["religion"][:2] == [10, 40]
