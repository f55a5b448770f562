"""Valid and invalid texts, labels, ids and weights."""

import pytest

from modules.config.task import TaskConfig
from modules.data import row_values

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
    assert row_values.find_text_problem(text, allows_empty=False) is None


def test_number_is_not_text():
    problem = row_values.find_text_problem(5, allows_empty=True)
    assert problem == "is '5', not text"


@pytest.mark.parametrize(
    ("task", "value", "label"),
    [
        (CLASSES, "yes", 1),
        (CLASSES, "1", 1),
        (CLASSES, 1.0, 1),
        (CLASSES, "1.0", 1),
        (CLASSES, "2", None),
        (CLASSES, "-1", None),
        (CLASSES, "Yes", None),
        (CLASSES, str(1 << 70), None),
        (SCORES, "2.5", 2.5),
        (SCORES, 5, 5.0),
        (SCORES, "5.1", None),
        (SCORES, "nan", None),
        (SCORES, "inf", None),
        (SCORES, "good", None),
    ],
)
def test_label_is_a_class_or_a_score_in_the_range(task, value, label):
    number = row_values.parse_label(value, task)
    is_label = number is not None and row_values.is_label(number, task)
    assert (number if is_label else None) == label


def test_label_with_two_decimal_points_is_not_an_index():
    assert row_values.parse_label("1.0", CLASSES) == 1
    assert row_values.parse_label("1.0.0", CLASSES) is None


def test_label_of_the_source_is_mapped_to_a_class():
    names = {"0": "yes", "1": "no"}
    assert row_values.parse_label("0", CLASSES, names) == 1
    assert row_values.describe_labels(CLASSES) == "0 to 1 and no, yes"
    assert row_values.describe_labels(SCORES) == "numbers from 1.0 to 5.0"


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
    ("task", "label", "is_secret"),
    [
        (CLASSES, -1, True),
        (CLASSES, "-1.0", True),
        (CLASSES, "1", False),
        (SCORES, "-1", True),
        (TaskConfig(label_range=[-1, 1]), "-1", False),
        (TaskConfig(classes=["-1", "+1"]), "-1", False),
    ],
)
def test_minus_one_is_a_secret_label_unless_the_task_has_it(task, label, is_secret):
    assert row_values.is_secret_label(label, task) == is_secret
