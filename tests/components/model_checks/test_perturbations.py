"""Changes of texts, and their settings."""

import collections
import re

import pydantic
import pytest

from components.model_checks.perturbations import (
    Perturbation,
    PerturbationSettings,
    check_columns,
)
from contracts.errors import SettingError
from contracts.task.definition import TaskConfig

SINGLE = TaskConfig(text_columns=["text"])
PAIR = TaskConfig(text_columns=["a", "b"])


def change(text, **settings):
    """Returns the only version of a text; None without one."""
    versions = Perturbation(**settings).versions((text,), ["text"])
    ((version,),) = versions or [(None,)]
    return version


def find_differences(text, changed):
    pairs = enumerate(zip(text, changed, strict=True))
    return [index for index, (before, after) in pairs if before != after]


@pytest.mark.parametrize(
    ("settings", "text", "changed"),
    [
        ({"replace": {"Mr.": "Mrs."}}, "Mr. Smith, (Mr. X)", "Mrs. Smith, (Mrs. X)"),
        ({"replace": {"no": "yes"}}, "no, not now. No", "yes, not now. No"),
        ({"replace": {"a": "b", "b": "a"}}, "a b ab", "b a ab"),
        ({"replace": {"it": "x", "it is": "it's"}}, "it is it", "it's x"),
        ({"replace": {"(": "["}}, "a(b", "a[b"),
        ({"replace": {"x": r"\1"}}, "x", r"\1"),
        ({"replace": {"Mr.": "Mrs."}}, "Mrs. Smith", None),
        ({"upper_case": True}, "Good, straße", "GOOD, STRASSE"),
        ({"upper_case": True}, "GOOD 漢字", None),
        ({"lower_case": True}, "Good", "good"),
        ({"append": " Thanks."}, "Good.", "Good. Thanks."),
        ({"prepend": "Hi. "}, "Good.", "Hi. Good."),
        ({"swap_words": [["cat", "dog"]]}, "A Cat", "A Dog"),
        ({"swap_words": "gender"}, "He left.", "She left."),
        ({"swap_words": "gender"}, "A cat", None),
        ({"typos": 1}, "ab", "ba"),
        ({"typos": 3}, "ab, c", "ba, c"),
        ({"typos": 1}, "aa 12", None),
    ],
)
def test_text_is_changed_or_has_no_version(settings, text, changed):
    assert change(text, **settings) == changed


def test_typos_swap_neighbouring_letters_and_are_always_the_same():
    text = "The movie was surprisingly good, with 100 % of what I expected"
    one, three = change(text, typos=1), change(text, typos=3)
    assert one == change(text, typos=1)
    for changed, most in ((one, 2), (three, 6)):
        assert collections.Counter(changed) == collections.Counter(text)
        assert 2 <= len(find_differences(text, changed)) <= most
    first, second = find_differences(text, one)
    assert second == first + 1


def test_places_of_typos_depend_on_the_text():
    texts = [f"{number} abcdefghij" for number in range(30)]
    places = {change(text, typos=1).split()[1] for text in texts}
    assert len(places) > 4


@pytest.mark.parametrize(
    ("settings", "versions"),
    [
        ({"append": "!", "column": "a"}, [("He!", "her")]),
        ({"append": "!", "column": "b"}, [("He", "her!")]),
        ({"lower_case": True, "column": "b"}, []),
        ({"swap_words": "gender"}, [("She", "him")]),
        ({"swap_words": "gender", "column": "b"}, [("He", "him")]),
        ({"swap_words": [["He", "It", "We"]]}, [("It", "her"), ("We", "her")]),
    ],
)
def test_column_of_a_pair_is_changed(settings, versions):
    assert Perturbation(**settings).versions(("He", "her"), ["a", "b"]) == versions


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "has no change; allowed: one of append, lower_case"),
        ({"append": ""}, "has no change"),
        ({"upper_case": False}, "has no change"),
        ({"typos": 1, "append": "x"}, "has typos, append"),
        ({"replace": {"": "x"}}, "with a text to change"),
        ({"replace": {}}, "at least 1 item"),
        ({"typos": 0}, "greater than 0"),
        ({"swap_words": "colours"}, "allowed: gender, religion, nationality"),
        ({"swap_words": [["he"]]}, "a list has rows of [1] words"),
        ({"typo": 1}, "not permitted"),
    ],
)
def test_section_without_exactly_one_change_is_refused(settings, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Perturbation.model_validate(settings)


def test_description_is_that_of_the_recipe():
    settings = {"replace": {"Mr.": "Mrs."}, "column": "a"}
    described = 'replace: {"Mr.": "Mrs."}, column: "a"'
    assert Perturbation(**settings).description == described
    long = Perturbation(append="x" * 100).description
    assert long == f'append: "{"x" * 51}…'


def test_settings_are_read_back_from_json():
    part = Perturbation(swap_words=[["he", "she"]], column="a")
    assert Perturbation.model_validate_json(part.model_dump_json()) == part


@pytest.mark.parametrize(
    ("settings", "task", "words"),
    [
        ({"typos": 1}, PAIR, "0.column: missing, but a row is a pair; allowed: a, b"),
        ({"typos": 1, "column": "c"}, PAIR, "0.column: 'c'; allowed: a, b"),
        ({"typos": 1, "column": "c"}, SINGLE, "0.column: 'c'; allowed: text"),
        ({"swap_words": "gender", "column": "c"}, PAIR, "0.column: 'c'"),
        ({"typos": 1}, TaskConfig(input="tokenized"), "token ids and no texts"),
    ],
)
def test_column_that_the_task_lacks_is_refused(settings, task, words):
    with pytest.raises(SettingError, match=re.escape(words)):
        check_columns([Perturbation(**settings)], task)


def test_column_of_the_task_is_allowed():
    check_columns([Perturbation(typos=1), Perturbation(typos=1, column="text")], SINGLE)
    named = Perturbation(typos=1, column="b")
    check_columns([named, Perturbation(swap_words="gender")], PAIR)
    check_columns([], TaskConfig(input="tokenized"))


def test_list_is_short_for_a_section():
    class Section(PerturbationSettings):
        perturbations: list[Perturbation] = pydantic.Field(default=[])

    section = Section.model_validate([{"typos": 1}])
    assert section == Section(perturbations=[Perturbation(typos=1)])
    assert Section.model_validate({"rows": 5}).perturbations == []
