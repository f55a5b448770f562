"""Words for groups of people in texts, and those that replace them."""

import re

import pytest

from components.serving_check import swapped_words
from components.serving_check.word_swaps import WordSwaps
from contracts.settings.evaluator import EvaluatorConfig

pytestmark = pytest.mark.slow

LISTS = swapped_words.read_lists(None)


def swap(text, name="gender", version=0):
    return WordSwaps(LISTS[name]).versions([text])[version][0]


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("He said SHE is a Woman.", "She said HE is a Man."),
        ("The theme of the heroine", None),  # words inside of words
        ("a he-man, man-made; he's here", "a he-man, man-made; she's here"),
        ("Her brother lost his keys.", "His sister lost her keys."),
        ("I told her that her keys are hers.", "I told him that his keys are his."),
        ("It is his, and I saw him with her.", "It is hers, and I saw her with him."),
        ("Mr. Smith and his wife", "Ms. Smith and her husband"),
        ("Mrs Smith", "Mr Smith"),
        ("Ärzte, ihr Mann und 漢字", None),
        ("", None),
    ],
)
def test_words_are_replaced_whole_and_keep_their_case(text, swapped):
    assert swap(text) == (text if swapped is None else swapped)


def test_each_version_has_other_groups_and_keeps_different_ones_different():
    text = "A Christian man met Muslims and a Jew."
    versions = [swap(text, "religion", index) for index in range(4)]
    assert versions == [
        "A Muslim man met Jews and a Hindu.",
        "A Jewish man met Hindus and a Buddhist.",
        "A Hindu man met Buddhists and a Christian.",
        "A Buddhist man met Christians and a Muslim.",
    ]


def test_all_texts_of_a_row_are_swapped_at_once():
    (version,) = WordSwaps(LISTS["gender"]).versions(["He left.", "The man left."])
    assert version == ["She left.", "The woman left."]


def test_shipped_lists_are_allowed():
    assert EvaluatorConfig(group_words=LISTS).group_words == LISTS
    assert [*LISTS] == ["gender", "religion", "nationality", "orientation"]


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({"age": []}, "'age' has rows of [] words; give one row or more"),
        ({"age": [["young"]]}, "rows of [1] words"),
        ({"age": [["young", "old"], ["boy", "man", "x"]]}, "rows of [2, 3] words"),
        ({"age": [["young", "very old"]]}, "'very old', which is not one word"),
        ({"age": [["young", ""]]}, "'', which is not one word"),
        ({"age": [["young", "old"], ["Old", "aged"]]}, "'old' for two groups"),
    ],
)
def test_lists_that_cannot_be_swapped_are_refused(lists, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        EvaluatorConfig(group_words=lists)


def test_own_lists_replace_the_shipped_ones():
    words = {"age": [["young", "old"]]}
    assert swapped_words.read_lists(words) == words
    assert swapped_words.read_lists({}) == {}
