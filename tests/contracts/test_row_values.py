"""Valid and invalid texts, labels, ids and weights."""

import pytest

from contracts import row_values
from contracts.task.definition import TaskConfig

CLASSES = TaskConfig(text_columns=["text"], classes=["no", "yes"])
SCORES = TaskConfig(text_columns=["text"], label_range=[1, 5])


@pytest.mark.parametrize("text", ["", " \t\n", "\u200b", "\ufffd", "\u00a0\u2028\x00"])
def test_text_that_the_tokenizer_drops_is_empty(text):
    assert row_values.is_empty(text)
    problem = row_values.find_text_problem(text, allows_empty=False)
    assert problem.endswith("which has no visible character")
    assert row_values.find_text_problem(text, allows_empty=True) is None


@pytest.mark.parametrize("text", [".", " a", "猫", "\u200bx"])
def test_text_with_a_visible_character_is_not_empty(text):
    assert not row_values.is_empty(text)
    assert row_values.find_text_problem(text) is None


@pytest.mark.parametrize(
    "mark",
    [
        *(None, float("nan"), "", " ", " NA ", "NA", "<NA>", "n/a", "#N/A", "#NA"),
        *("NaN", "NaT", "null", "NULL", "None", "none", "-", "\\N"),
    ],
)
def test_mark_of_a_missing_value_is_no_value(mark):
    assert row_values.is_missing(mark)
    if isinstance(mark, str):
        assert row_values.find_text_problem(mark)


@pytest.mark.parametrize(
    "text", ["0", "NA sales fell", "none of it", "--", "Nan's", "."]
)
def test_text_with_a_mark_in_it_is_a_value(text):
    assert not row_values.is_missing(text)
    assert row_values.find_text_problem(text) is None


def test_mark_is_text_if_marks_are_allowed():
    assert row_values.find_text_problem("n/a", allows_marks=True) is None


def test_number_is_not_text():
    problem = row_values.find_text_problem(5, allows_empty=True)
    assert problem == "is '5', not text"


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("2.5", 2.5),
        (5, 5.0),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("x", None),
    ],
)
def test_score_is_a_finite_number(value, score):
    assert row_values.parse_score(value) == score


@pytest.mark.parametrize(("number", "is_score"), [(1, True), (5, True), (5.1, False)])
def test_score_is_in_the_range(number, is_score):
    assert SCORES.label_kind.allows(number) == is_score


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("7", 7),
        (7.0, 7),
        ("-3", -3),
        # pandas writes whole numbers of a column with missing values like this.
        ("0.0", 0),
        ("-7.00", -7),
        ("9007199254740993.0", 9007199254740993),
        ("7.5", None),
        ("1.0.0", None),
        (".0", None),
        ("", None),
        (str(1 << 63), None),
    ],
)
def test_id_is_a_whole_number_of_64_bits(value, number):
    assert row_values.parse_id(value) == number


@pytest.mark.parametrize(
    ("value", "weight"), [("0", 0), (2, 2), ("-1", None), ("1e39", None), ("x", None)]
)
def test_weight_is_a_number_from_0(value, weight):
    assert row_values.parse_weight(value) == weight


@pytest.mark.parametrize(
    ("task", "label", "is_unlabelled"),
    [
        (CLASSES, -1, True),
        (CLASSES, "-1.0", True),
        (CLASSES, "1", False),
        (SCORES, "-1", True),
        (TaskConfig(label_range=[-1, 1]), "-1", False),
        (TaskConfig(classes=["-1", "+1"]), "-1", False),
        (CLASSES, "", True),
        (CLASSES, None, True),
        (CLASSES, "NONE", True),
        (TaskConfig(classes=["FAVOR", "NONE"]), "NONE", False),
        (SCORES, "N/A", True),
        (SCORES, "2", False),
    ],
)
def test_minus_one_and_marks_mean_no_label_unless_the_task_has_them(
    task, label, is_unlabelled
):
    assert row_values.is_unlabelled(label, task) == is_unlabelled


@pytest.mark.parametrize(
    ("values", "label"),
    [([0, 1, 1], [0, 1, 1]), ([0, 1], None), ([0, 2, 1], None), ([b"a"] * 3, None)],
)
def test_several_labels_are_0_or_1_each(values, label):
    task = TaskConfig(kind="multilabel", classes=["a", "b", "c"])
    assert task.label_kind.read(values) == label
    assert (task.label_kind.low, task.label_kind.high) == (0, 1)


@pytest.mark.parametrize(
    ("values", "label"), [([2], 2), ([3], None), ([], None), ([0, 1], None)]
)
def test_label_is_one_value(values, label):
    assert TaskConfig(classes=["a", "b", "c"]).label_kind.read(values) == label


def test_lone_surrogate_in_a_text_is_named_by_its_place():
    for text, place in (("\ud83d", 1), ("an \ud83d\U0001f600", 4), ("\udcff x", 1)):
        problem = row_values.find_text_problem(text)
        assert f"has a lone surrogate, {text[place - 1]!a}, at character {place}:" in (
            problem
        )
    assert row_values.find_text_problem("whole \U0001f600") is None
