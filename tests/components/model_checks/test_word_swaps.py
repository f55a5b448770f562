"""Words for groups of people in texts, and those that replace them."""

import re

import pytest

from components.model_checks.word_swaps import (
    WordSwaps,
    check_list,
    read_english_lists,
)
from contracts.errors import SettingError

LISTS = read_english_lists()


def swap(text):
    # Another text of the row has a word, so that there is a version.
    ((swapped, _),) = WordSwaps(LISTS["gender"]).versions([text, "he"])
    return swapped


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
    versions = WordSwaps(LISTS["religion"]).versions([text])
    assert [version for (version,) in versions] == [
        "A Muslim man met Jews and a Hindu.",
        "A Jewish man met Hindus and a Buddhist.",
        "A Hindu man met Buddhists and a Christian.",
        "A Buddhist man met Christians and a Muslim.",
    ]


def test_all_texts_of_a_row_are_swapped_at_once():
    (version,) = WordSwaps(LISTS["gender"]).versions(["He left.", "The man left."])
    assert version == ["She left.", "The woman left."]


def test_texts_without_a_word_have_no_version():
    assert WordSwaps(LISTS["gender"]).versions(["The theme", "of a heroine"]) == []


def test_shipped_lists_are_allowed():
    assert [*LISTS] == ["gender", "religion", "nationality", "orientation"]
    for rows in LISTS.values():
        check_list(rows)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "a list has rows of [] words; give one row or more"),
        ([["young"]], "rows of [1] words"),
        ([["young", "old"], ["boy", "man", "x"]], "rows of [2, 3] words"),
        ([["young", "very old"]], "'very old' is not one word"),
        ([["young", ""]], "'' is not one word"),
        ([["young", "old"], ["Old", "aged"]], "'old' names two groups"),
    ],
)
def test_lists_that_cannot_be_swapped_are_refused(rows, words):
    with pytest.raises(SettingError, match=re.escape(words)):
        check_list(rows)
